"""The engine over HTTP, as upstream serves it: the part of the text-carrying half that clients see."""
