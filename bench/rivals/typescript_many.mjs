// Connects to many servers at once with an official TypeScript SDK, lists the tools of each, and leaves.
// `node typescript_many.mjs v1|v2 COUNT COMMAND…`

import { need } from './calls.mjs';

const [version, count, command, ...args] = process.argv.slice(2);
const { Client } = need(version === 'v1' ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StdioClientTransport } = need(
    version === 'v1' ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio',
);

async function connected() {
    const client = new Client({ name: 'rival', version: '1' });
    await client.connect(new StdioClientTransport({ command, args }));
    const { tools } = await client.listTools();
    if (tools.length === 0) throw new Error('not what was asked for');
    return client;
}

const clients = await Promise.all(Array.from({ length: Number(count) }, connected));
await Promise.all(clients.map((client) => client.close()));
process.exit(0);
