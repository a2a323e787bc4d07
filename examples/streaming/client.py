"""Send a signal over one WebSocket, value by value, and print the alarms as they come.

    python client.py [--url ws://localhost:8000]

Needs `pip install websockets`.
"""

import argparse
import asyncio
import json
import math

from websockets.asyncio.client import ClientConnection, connect

LEAPS = {40: 9.0, 70: -5.0}
"""Values that do not fit the signal, by their place."""


def signal(length: int = 100) -> list[float]:
    """Make a slow wave, and a quick one on it, with leaps."""
    wave = (math.sin(place / 30) + math.sin(place) / 4 for place in range(length))
    return [LEAPS.get(place, value) for place, value in enumerate(wave)]


async def send(socket: ClientConnection) -> None:
    for value in signal():
        await socket.send(json.dumps({"instances": [value]}))
    await socket.close()  # the stream ends when its last request is answered


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", default="ws://localhost:8000")
    given = parser.parse_args()
    async with connect(f"{given.url}/v1/models/alarms:stream") as socket:
        sending = asyncio.create_task(send(socket))
        async for message in socket:
            (found,) = json.loads(message)["predictions"]
            print(f"alarm: {found['alarm']}, where {found['usual']:.1f} is usual")
        await sending


if __name__ == "__main__":
    asyncio.run(main())
