"""A client on the official Python library, for a gateway in front of `everything` and `time`: lists, calls, and answers
what the servers behind it ask.

Usage: python_pool_client.py legacy|auto URL
       python_pool_client.py legacy|auto COMMAND ARGUMENTS...
Prints what it saw, as one line of JSON.
"""

import json
import os
import sys

import anyio
import mcp.types as types
from mcp import Client, StdioServerParameters

MODE, WHERE, *ARGUMENTS = sys.argv[1:]


async def main() -> None:
    asked = []
    progress = []

    async def elicit(context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})

    async def sample(context, params):
        asked.append("sampling")
        text = types.TextContent(type="text", text="sampled words")
        return types.CreateMessageResult(role="assistant", content=text, model="none")

    async def note(done, total, message):
        progress.append([done, total])

    if WHERE.startswith("http://"):
        server = WHERE
    else:
        server = StdioServerParameters(command=WHERE, args=ARGUMENTS, env=dict(os.environ))
    options = {"elicitation_callback": elicit, "sampling_callback": sample}
    async with Client(server, mode=MODE, **options) as client:
        seen = {"protocol": client.protocol_version}
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]

        async def call(name, arguments, **more):
            result = await client.call_tool(name, arguments, **more)
            return "\n".join(part.text for part in result.content if part.type == "text")

        seen["echo"] = await call("mcp__everything__echo", {"message": "hello"})
        seen["time"] = await call("mcp__time__get_current_time", {"timezone": "UTC"})
        seen["elicited"] = await call("mcp__everything__trigger-elicitation-request", {})
        prompt = {"prompt": "say something", "maxTokens": 5}
        seen["sampled"] = await call("mcp__everything__trigger-sampling-request", prompt)
        work = {"duration": 0.3, "steps": 3}
        seen["long"] = await call("mcp__everything__trigger-long-running-operation", work, progress_callback=note)
        resources = (await client.list_resources()).resources
        read = await client.read_resource(resources[0].uri)
        seen["read"] = len(read.contents[0].text)
        said = await client.get_prompt("mcp__everything__simple-prompt")
        seen["prompt"] = said.messages[0].content.text
    seen["asked"] = asked
    seen["progress"] = progress
    print(json.dumps(seen))


anyio.run(main)
