"""Direction, clock and commands within asyncio, with Hearth's typed client.

Start `hearth live`, then `python examples/asyncio_client.py [STREAM [COMMANDS]]`. It ends with the rig.
"""

import asyncio
import sys

from edge.stream import AsyncClient, StreamLost

STREAM = sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:5771"
COMMANDS = sys.argv[2] if len(sys.argv) > 2 else "tcp://127.0.0.1:5772"


async def main() -> None:
    async with AsyncClient(STREAM, COMMANDS, streams=["doa", "event"], name="example") as rig:
        await rig.wait_connected()
        print("commands:", ", ".join((await rig.command("ops"))["ops"]), flush=True)
        while True:
            try:
                async for message in rig.messages():
                    if message.stream == "event":
                        print("event", message.data["kind"], flush=True)
                    elif message.data.get("active"):
                        clock = rig.clock.state
                        known = "?" if clock is None else f"{clock.uncertainty_ns / 1e6:.1f}"
                        azimuth_deg = message.data["azimuth_deg"]
                        print(f"{azimuth_deg:+6.1f} deg, {message.age_ms:.0f} +- {known} ms old", flush=True)
                return
            except StreamLost as error:
                print(error, "- waiting for it", flush=True)


asyncio.run(main())
