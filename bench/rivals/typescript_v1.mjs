// Makes calls with the official TypeScript SDK v1.

import { asked, need, report } from './calls.mjs';

const { Client } = need('@modelcontextprotocol/sdk/client/index.js');

const question = asked();
const client = new Client({ name: 'rival', version: '1' });
if (question.transport === 'http') {
    const { StreamableHTTPClientTransport } = need('@modelcontextprotocol/sdk/client/streamableHttp.js');
    await client.connect(new StreamableHTTPClientTransport(new URL(question.target[0])));
} else {
    const { StdioClientTransport } = need('@modelcontextprotocol/sdk/client/stdio.js');
    const [command, ...args] = question.target;
    await client.connect(new StdioClientTransport({ command, args }));
}
await report(client, question);
