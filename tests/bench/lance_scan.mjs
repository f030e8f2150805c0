// lance_scan.mjs DIR FRAGMENTS TRIES: a table of that many one-row fragments,
// and how long LanceDB takes to read all of it, before and after optimize.
// Prints {"scan_ms", "optimized_ms"}, the medians.

import { createRequire } from "node:module";

// node_modules is the interop tests'.
const require = createRequire(new URL("../interop/lancedb.mjs",
	import.meta.url));
const lancedb = require("@lancedb/lancedb");

const [dir, fragments, tries] = process.argv.slice(2);

async function median(table) {
	const times = [];
	for (let i = 0; i < Number(tries); i++) {
		const started = performance.now();
		await table.query().toArrow();
		times.push(performance.now() - started);
	}
	return times.sort((a, b) => a - b)[times.length >> 1];
}

const row = i => ({ id: `r${i}`, content: "x".repeat(600),
	output_tokens: Array.from({ length: 80 }, (_, k) => 100000 + k) });
const db = await lancedb.connect(dir);
const table = await db.createTable("scan", [row(0)]);
for (let i = 1; i < Number(fragments); i++)
	await table.add([row(i)]);
const scan_ms = await median(table);
await table.optimize();
const optimized_ms = await median(await db.openTable("scan"));
process.stdout.write(JSON.stringify({ scan_ms, optimized_ms }));
