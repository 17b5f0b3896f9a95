"""A client on the official Python library, for a workspace server that it starts: reads, edits, runs a command.

Usage: python_client.py legacy|auto FOLDER COMMAND...
Prints what it saw, as one line of JSON.
"""

import json
import os
import sys

import anyio
from mcp import Client, StdioServerParameters

MODE, FOLDER, COMMAND, *ARGUMENTS = sys.argv[1:]


async def main() -> None:
    server = StdioServerParameters(command=COMMAND, args=ARGUMENTS, cwd=FOLDER, env=dict(os.environ))
    async with Client(server, mode=MODE) as client:
        seen = {"protocol": client.protocol_version}
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]

        async def call(name, **arguments):
            # The library holds structured content against the tool's output schema by itself.
            result = await client.call_tool(name, arguments)
            return {"error": result.is_error, "value": result.structured_content, "text": result.content[0].text}

        seen["unread"] = await call("Edit", file_path="a.txt", old_string="one", new_string="two")
        seen["read"] = await call("Read", file_path="a.txt")
        seen["edit"] = await call("Edit", file_path="a.txt", old_string="one", new_string="two")
        seen["bash"] = await call("Bash", command="cat a.txt; exit 3")
        seen["background"] = await call("Bash", command="echo $$ > leader; sleep 1000", run_in_background=True)
        with anyio.fail_after(20):
            while not os.path.exists(os.path.join(FOLDER, "leader")):
                await anyio.sleep(0.01)
        prompt = await client.get_prompt("review", {"target": "a.txt"})
        seen["prompt"] = prompt.messages[0].content.text
    print(json.dumps(seen))


anyio.run(main)
