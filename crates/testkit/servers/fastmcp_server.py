"""A server of the modern era, written with FastMCP 4: one of each thing that tests ask for.

Usage: fastmcp_server.py stdio | http PORT
"""

import sys
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = FastMCP("fastmcp", version="1.0.0")

MODERN = "2026-07-28"


@dataclass
class Name:
    name: str


QUESTION = ElicitRequestFormParams(
    message="What is your name?",
    requested_schema={
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    },
)


@server.tool
def echo(text: str) -> str:
    """Says what it was told."""
    return text


# No type for the result: a question is none of the answers that a schema could promise.
@server.tool(output_schema=None)
async def ask(context: Context):
    """Asks for a name and greets its owner."""
    if context.request_context.protocol_version >= MODERN:
        return modern_ask(context)
    answer = await context.elicit(QUESTION.message, Name)
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


def modern_ask(context: Context):
    answers = context.input_responses or {}
    if "name" not in answers:
        request = ElicitRequest(params=QUESTION)
        return InputRequiredResult(input_requests={"name": request})
    answer = answers["name"]
    if answer.action != "accept":
        return answer.action
    return f"hello {answer.content['name']}"


@server.resource("note://one", mime_type="text/plain")
def note() -> str:
    """A note."""
    return "the first note"


@server.prompt
def greeting(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


match sys.argv[1:]:
    case ["stdio"]:
        server.run("stdio", show_banner=False)
    case ["http", port]:
        server.run("http", show_banner=False, host="127.0.0.1", port=int(port), path="/mcp")
    case _:
        sys.exit(__doc__)
