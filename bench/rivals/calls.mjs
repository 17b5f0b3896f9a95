// What the JavaScript rivals share: the arguments, the calls, and what they cost.
// `node RIVAL.mjs stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL`

import { createRequire } from 'node:module';

/** Finds packages where the benchmark installs them, which is not above this folder. */
export const need = createRequire(new URL('../.peers/sdks/package.json', import.meta.url));

export function asked() {
    const [transport, size, calls, inFlight, ...target] = process.argv.slice(2);
    return { transport, size: Number(size), calls: Number(calls), inFlight: Number(inFlight), target };
}

/** Makes the calls of a question through a client that is connected, and prints what they cost. */
export async function report(client, { size, calls, inFlight }) {
    const one = () => client.callTool({ name: 'echo', arguments: { size } });
    await run(one, Math.floor(calls / 2), inFlight);
    const before = process.cpuUsage();
    const start = process.hrtime.bigint();
    const times = await run(one, calls, inFlight);
    const wall = Number(process.hrtime.bigint() - start) / 1e9;
    const processor = process.cpuUsage(before);
    times.sort((a, b) => a - b);
    const report = {
        p50: times[Math.floor(times.length / 2)],
        callsPerSecond: calls / wall,
        processorPerCall: (processor.user + processor.system) / calls,
        peakKilobytes: process.resourceUsage().maxRSS,
    };
    console.log(JSON.stringify(report));
    await client.close();
    process.exit(0);
}

async function run(one, calls, inFlight) {
    const times = [];
    let left = calls;
    const caller = async () => {
        while (left > 0) {
            left -= 1;
            const start = process.hrtime.bigint();
            const result = await one();
            times.push(Number(process.hrtime.bigint() - start) / 1e3);
            if (result.content[0].type !== 'text') throw new Error('not what was asked for');
        }
    };
    await Promise.all(Array.from({ length: inFlight }, caller));
    return times;
}
