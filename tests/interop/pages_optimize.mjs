// pages_optimize.mjs DIR NAME: has the real engine rewrite the table as
// thoroughly as it can: compact, index anew, and delete all files that it does
// not know.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const lancedb = require("@lancedb/lancedb");

const [dir, name] = process.argv.slice(2);
const db = await lancedb.connect(dir);
const table = await db.openTable(name);
await table.optimize({
	cleanupOlderThan: new Date(Date.now() + 3600 * 1000),
	deleteUnverified: true,
});
