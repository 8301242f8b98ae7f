"""A process with an outlet and nothing else, for a test to kill: `python outlet_process.py ADDRESS PORT`."""

import asyncio
import sys

from elasticd.telemetry.mqtt_publisher import PublisherSettings


async def main(host: str, port: int) -> None:
    """Be online until killed."""
    async with PublisherSettings(host=host, port=port).open():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
