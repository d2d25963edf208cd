"""A scenario while it is made, shrunk and promoted: the content of a scenario file, as plain data.

A document is exactly what the YAML file would hold, lengths and parts of prompts included, so that what is found can be
read and committed as it is. A document never has a `sweep`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from parity.document import Fault
from parity.form import ScenarioForm
from parity.loader import case_of, refuse_foreign
from parity.scenario import Case
from parity.serve_form import ServeForm

Document = dict[str, Any]

FAMILY = "fuzz"  # of ids only: no folder of the suite has this name
TITLE = "Found by a hunt"


def case_from(document: Document, name: str = "case") -> Case:
    """The case of a document, its id `fuzz/<name>`. A missing title is filled in.

    Raises Fault where the document asks for what no scenario may ask for (parity/loader.py's rules, without lines).
    """
    whole = {"title": TITLE, **document}
    if isinstance(whole.get("level"), str):
        refuse_foreign(whole["level"], whole)
    try:
        form: ScenarioForm | ServeForm
        if whole.get("level") == "serve":
            form = msgspec.convert(whole, ServeForm)
        else:
            form = msgspec.convert(whole, ScenarioForm)
    except msgspec.ValidationError as error:
        raise Fault(str(error)) from None
    return case_of(form, f"{FAMILY}/{name}", "<a hunt>", 1)
