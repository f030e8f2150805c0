// try.mjs [DIR]: opens every rollout table under DIR with LanceDB and prints a
// few of its rows (make try-lancedb). What was not folded yet is not there.

import { readdirSync } from "node:fs";
import * as lancedb from "@lancedb/lancedb";

const dir = process.argv[2] ?? "data";
let names;
try {
	names = readdirSync(dir).filter(n => n.endsWith(".rollout.lance"));
} catch (e) {
	console.error(`${dir}: ${e.code}; start the server first (make run)`);
	process.exit(1);
}
const db = await lancedb.connect(dir);
for (const name of names.sort()) {
	const table = await db.openTable(name.replace(/\.lance$/, ""));
	console.log(`${name}: ${await table.countRows()} rows, ` +
		`version ${await table.version()}`);
	const rows = await table.query()
		.select(["id", "role", "content", "reward"]).limit(10).toArray();
	console.table(rows.map(r => ({ ...r.toJSON(),
		content: r.content?.slice(0, 40) ?? null })));
	console.log(`with a reward of 1: ` +
		`${await table.countRows("reward = 1")}`);
}
if (names.length === 0)
	console.log(`no rollout store in ${dir}`);
