"""Decodes an OTLP export of traces with the message types of OpenTelemetry's Python library. Unknown members are an error.

Usage: otlp_decoder.py CONTENT_TYPE, with the body on standard input.
Prints the message as one line of OTLP JSON.
"""

import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

IDS = ("traceId", "spanId", "parentSpanId")


def with_ids(value, convert):
    """OTLP has ids in hexadecimal, where other JSON of protobuf has bytes in base64."""
    if isinstance(value, list):
        return [with_ids(item, convert) for item in value]
    if isinstance(value, dict):
        return {name: convert(item) if name in IDS else with_ids(item, convert) for name, item in value.items()}
    return value


def main() -> None:
    body = sys.stdin.buffer.read()
    message = ExportTraceServiceRequest()
    if sys.argv[1] == "application/json":
        to_base64 = lambda text: base64.b64encode(bytes.fromhex(text)).decode()
        json_format.ParseDict(with_ids(json.loads(body), to_base64), message)
    else:
        message.ParseFromString(body)
        message.DiscardUnknownFields()
        assert message.ByteSize() == len(body), "the message has unknown fields"
    decoded = json_format.MessageToDict(message, use_integers_for_enums=True)
    print(json.dumps(with_ids(decoded, lambda text: base64.b64decode(text).hex())))


main()
