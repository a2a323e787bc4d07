"""Watches a signal, one stream for each client: tells which values leap out of it."""

LIMIT = 2.0
"""How far a value may be from the running mean."""
SHARE = 0.1
"""Of each new value in the running mean."""


class Alarms:
    def metadata(self):
        numbers = {"dtype": "float32", "shape": [-1]}
        return {"inputs": {"x": numbers}, "outputs": {"alarm": numbers, "usual": numbers}}

    async def stream(self, items, ctx):
        mean = None
        async for inputs in items:  # one for each message of the client
            for value in inputs["x"].tolist():
                mean = value if mean is None else mean
                if abs(value - mean) > LIMIT:  # an answer; any other value has none
                    yield {"alarm": [value], "usual": [mean]}
                else:
                    mean += (value - mean) * SHARE
