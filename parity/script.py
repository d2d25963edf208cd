"""A serve script as people write it becomes the explicit one: exchanges as they go out, references checked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import UNSET

from parity.bodies import body_text
from parity.document import Fault, Keys, nearest
from parity.scenario import (
    Action,
    AtOnce,
    Await,
    Exchange,
    Exit,
    Leave,
    Open,
    Pause,
    Send,
    Signal,
    Until,
)
from parity.serve.models import Served
from parity.serve_form import ActionForm, ExchangeForm

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_METHOD = re.compile(r"[A-Z]+\Z")
_ACTIONS = tuple(field.removesuffix("_") for field in ActionForm.__struct_fields__)


def build_script(forms: Sequence[ActionForm], model: str, served: Served) -> list[Action]:
    """The actions of a file. Raises Fault at the key that cannot be."""
    return _Script(model, served).actions(forms)


class _Script:
    """One pass over a script, knowing which exchanges are under way at each action."""

    def __init__(self, model: str, served: Served) -> None:
        self._model = model
        self._served = served
        self._seen: dict[str, int] = {}
        self._opened: dict[str, bool] = {}  # of each opened exchange: whether it is still under way
        self._signalled = False

    def actions(self, forms: Sequence[ActionForm]) -> list[Action]:
        return [self._action(form, index) for index, form in enumerate(forms)]

    def _action(self, form: ActionForm, index: int) -> Action:
        keys: Keys = ("script", index)
        name = _only(form, keys)
        here: Keys = (*keys, name)
        if form.send is not None:
            return Send(self._exchange(form.send, index, here))
        if form.open is not None:
            exchange = self._exchange(form.open, index, here)
            self._opened[exchange.id] = True
            return Open(exchange)
        if form.at_once is not None:
            return AtOnce([self._exchange(one, index, (*here, at)) for at, one in enumerate(form.at_once)])
        if form.await_ is not None:
            self._under_way(form.await_.id, (*here, "id"))
            self._opened[form.await_.id] = form.await_.what != "end"
            return Await(id=form.await_.id, what=form.await_.what)
        if form.leave is not None:
            self._under_way(form.leave, here)
            self._opened[form.leave] = False
            return Leave(form.leave)
        return self._operator(form, here)

    def _operator(self, form: ActionForm, keys: Keys) -> Action:
        """What is done to the server and not by a client."""
        if form.until is not None:
            if form.until.running is None and form.until.waiting is None:
                raise Fault("waits for nothing", keys, hint="give running, waiting or both")
            return Until(running=form.until.running, waiting=form.until.waiting, within=form.until.within)
        if form.signal is not None:
            self._signalled = True
            return Signal(form.signal)
        if form.pause is not None:
            return Pause(form.pause)
        assert form.exit is not None
        if not self._signalled:
            raise Fault("no signal was sent, so the server does not end", keys, hint="put a signal before it")
        return Exit(form.exit.within)

    def _exchange(self, form: ExchangeForm, index: int, keys: Keys) -> Exchange:
        if not _ID.match(form.id):
            raise Fault(f"{form.id!r} is no id", (*keys, "id"), hint="use letters, digits, '.', '_' and '-'")
        if form.id in self._seen:
            raise Fault(f"id {form.id!r} is taken by script[{self._seen[form.id]}]", (*keys, "id"))
        self._seen[form.id] = index
        if not form.path.startswith("/"):
            raise Fault(f"{form.path!r} is no path", (*keys, "path"), hint="it begins with '/'")
        if form.method is not None and not _METHOD.match(form.method):
            raise Fault(f"{form.method!r} is no method", (*keys, "method"), hint="such as GET or POST")
        content = self._content(form, keys)
        headers = {name.lower(): value for name, value in form.headers.items()}
        if form.body is not UNSET:
            headers.setdefault("content-type", "application/json")
        return Exchange(
            id=form.id,
            method=form.method or ("GET" if content is None else "POST"),
            path=form.path,
            headers=headers,
            content=content,
            deadline=form.deadline,
            leave_after=form.leave_after,
        )

    def _content(self, form: ExchangeForm, keys: Keys) -> str | None:
        if form.raw is not None and form.body is not UNSET:
            raise Fault("body and raw cannot both go out", (*keys, "raw"), hint="leave one of them out")
        if form.body is not UNSET:
            return body_text(form, self._model, self._served, keys)
        if form.patch is not None:
            raise Fault("there is no body to patch", (*keys, "patch"), hint="give body as a map")
        return form.raw

    def _under_way(self, id_: str, keys: Keys) -> None:
        if id_ not in self._opened:
            hint = nearest(id_, self._opened) if self._opened else "begin it with open"
            raise Fault(f"no exchange {id_!r} was opened before", keys, hint=hint)
        if not self._opened[id_]:
            raise Fault(f"the exchange {id_!r} has ended by then", keys)


def _only(form: ActionForm, keys: Keys) -> str:
    """The key of the one action that an item holds."""
    values = (getattr(form, field) for field in ActionForm.__struct_fields__)
    given = [name for name, value in zip(_ACTIONS, values, strict=True) if value is not None]
    if len(given) == 1:
        return given[0]
    if given:
        raise Fault(f"an item is one action, not {' and '.join(given)}", keys, hint="make it several items")
    raise Fault("an item is one action", keys, hint=f"one of: {', '.join(_ACTIONS)}")
