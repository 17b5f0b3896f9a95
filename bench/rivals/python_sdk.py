"""Makes calls with the official Python SDK.

Usage: python_sdk.py stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL
"""

import asyncio
import json
import resource
import sys
import time

from mcp import Client, StdioServerParameters


async def run(client, size, calls, in_flight):
    times = []
    left = calls

    async def caller():
        nonlocal left
        while left > 0:
            left -= 1
            start = time.perf_counter_ns()
            result = await client.call_tool("echo", {"size": size})
            times.append((time.perf_counter_ns() - start) / 1e3)
            assert result.content[0].type == "text"

    await asyncio.gather(*(caller() for _ in range(in_flight)))
    return times


def processor():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def main():
    transport, size, calls, in_flight, *target = sys.argv[1:]
    size, calls, in_flight = int(size), int(calls), int(in_flight)
    server = target[0] if transport == "http" else StdioServerParameters(command=target[0], args=target[1:])
    # Without the handshake first asked about the modern era, which the echo server does not know.
    async with Client(server, mode="legacy") as client:
        await run(client, size, calls // 2, in_flight)
        before = processor()
        start = time.perf_counter()
        times = await run(client, size, calls, in_flight)
        wall = time.perf_counter() - start
        used = processor() - before
        report = {
            "p50": sorted(times)[len(times) // 2],
            "callsPerSecond": calls / wall,
            "processorPerCall": used * 1e6 / calls,
            "peakKilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        print(json.dumps(report), flush=True)


asyncio.run(main())
