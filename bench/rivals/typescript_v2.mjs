// Makes calls with the official TypeScript SDK v2.

import { asked, need, report } from './calls.mjs';

const { Client, StreamableHTTPClientTransport } = need('@modelcontextprotocol/client');
const { StdioClientTransport } = need('@modelcontextprotocol/client/stdio');

const question = asked();
const client = new Client({ name: 'rival', version: '1' });
if (question.transport === 'http') {
    await client.connect(new StreamableHTTPClientTransport(new URL(question.target[0])));
} else {
    const [command, ...args] = question.target;
    await client.connect(new StdioClientTransport({ command, args }));
}
await report(client, question);
