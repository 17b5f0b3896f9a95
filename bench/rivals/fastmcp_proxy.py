"""Passes calls on with FastMCP, to a server on its standard streams or at a URL.

Usage: fastmcp_proxy.py reused|default PORT COMMAND…|URL
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


async def main():
    session, port, *target = sys.argv[1:]
    is_url = target[0].startswith("http")
    server = target[0] if is_url else StdioTransport(command=target[0], args=target[1:])
    # The echo server knows nothing of the modern era; saying so spares it being asked.
    if session == "reused":
        async with Client(server, mode="legacy") as client:
            await serve(create_proxy(client), port)
    else:
        await serve(create_proxy(server, mode="legacy"), port)


async def serve(proxy, port):
    await proxy.run_async(
        transport="http", host="127.0.0.1", port=int(port), path="/mcp", log_level="error", show_banner=False
    )


asyncio.run(main())
