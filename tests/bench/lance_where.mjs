// lance_where.mjs DIR NAME TRIES WHERE...: how long LanceDB takes to read the
// rows of DIR/NAME.lance that each condition gives, and how many there are.
// Prints [{"ms", "rows"}, ...], the medians.

import { createRequire } from "node:module";

// node_modules is the interop tests'.
const require = createRequire(new URL("../interop/lancedb.mjs",
	import.meta.url));
const lancedb = require("@lancedb/lancedb");

const [dir, name, tries, ...conditions] = process.argv.slice(2);
const db = await lancedb.connect(dir);
const table = await db.openTable(name);
const answers = [];
for (const where of conditions) {
	const times = [];
	let rows = 0;
	for (let i = 0; i < Number(tries); i++) {
		const started = performance.now();
		rows = (await table.query().where(where).toArrow()).numRows;
		times.push(performance.now() - started);
	}
	answers.push({ ms: times.sort((a, b) => a - b)[times.length >> 1],
		rows });
}
process.stdout.write(JSON.stringify(answers));
