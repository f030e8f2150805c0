// lancedb.mjs DIR NAME [lines]: opens DIR/NAME.lance with the real engine and
// runs the operations that it reads from standard input, a JSON array of arrays:
//
//	["count"] ["count", WHERE] ["refuses", WHERE] ["schema"] ["indices"] ["version"]
//	["rows", {where, columns, limit}] ["plan", WHERE]
//	["index", NAME]: its rows, those that it lacks, its segments
//	["create_index", COLUMN, "btree" | "bitmap"] ["drop_index", NAME]
//	["add", ROWS] ["delete", WHERE] ["upsert", KEY, ROWS] ["optimize"]
//	["add_column", NAME, SQL]
//	["meet", PATH]: makes the file PATH and waits until it is gone
//	["at", VERSION, OPERATION]: with a new handle, of that version
//	["gone", VERSION]: whether that version cannot be read
//	["tag", NAME, VERSION] ["untag", NAME]
//	["watch", PATH, MS]: opens, counts and reads the table again and again,
//	    the file PATH is made after the first time and has it end when it is
//	    gone: {turns: [[version, rows, rows read], ...], slow}. Only what took
//	    longer than MS may fail: it is slow.
//
// Prints the JSON array of their answers; with "lines" each operation is a line,
// and so is its answer, which comes before the next is read. In rows, 64-bit integers and time
// stamps are decimal strings, binary is base64, absent is null. Rows that are
// written are given in the same form; columns left out are null.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// Not imported: LanceDB requires apache-arrow, and takes our tables for its own
// only if they are made by the same copy.
const require = createRequire(import.meta.url);
const arrow = require("apache-arrow");
const lancedb = require("@lancedb/lancedb");

function plain(value) {
	if (value === null || value === undefined)
		return null;
	if (typeof value === "bigint")
		return value.toString();
	if (value instanceof Uint8Array)
		return Buffer.from(value).toString("base64");
	if (value instanceof Date)
		return (BigInt(value.getTime()) * 1000n).toString();
	if (value instanceof arrow.StructRow)
		return Object.fromEntries(Object.entries(value.toJSON())
			.map(([k, v]) => [k, plain(v)]));
	if (value instanceof arrow.Vector || Array.isArray(value))
		return Array.from(value, plain);
	return value;
}

// apache-arrow divides time stamps into floats; the exact number is in the
// buffer.
function column_values(vector) {
	const out = [];
	const stamp = arrow.DataType.isTimestamp(vector.type);
	for (const data of vector.data) {
		const part = new arrow.Vector([data]);
		for (let i = 0; i < data.length; i++) {
			if (!part.isValid(i))
				out.push(null);
			else if (stamp)
				out.push(data.values[i].toString());
			else
				out.push(plain(part.get(i)));
		}
	}
	return out;
}

function rows_of(table) {
	const rows = Array.from({ length: table.numRows }, () => ({}));
	for (const field of table.schema.fields) {
		const vector = table.getChild(field.name);
		column_values(vector).forEach((v, i) => { rows[i][field.name] = v; });
	}
	return rows;
}

// A value of the JSON form as apache-arrow's builders want it.
function cell(type, value) {
	if (value === null || value === undefined)
		return null;
	if (arrow.DataType.isBinary(type) || arrow.DataType.isLargeBinary(type))
		return Buffer.from(value, "base64");
	if (arrow.DataType.isInt(type) && type.bitWidth === 64)
		return BigInt(value);
	if (arrow.DataType.isTimestamp(type))
		return Number(BigInt(value) / 1000n);
	if (arrow.DataType.isList(type))
		return value.map(v => cell(type.children[0].type, v));
	if (arrow.DataType.isStruct(type))
		return Object.fromEntries(type.children.map(
			f => [f.name, cell(f.type, value[f.name])]));
	return value;
}

function table_of(schema, rows) {
	const columns = {};
	for (const field of schema.fields) {
		columns[field.name] = arrow.vectorFromArray(
			rows.map(r => cell(field.type, r[field.name])), field.type);
	}
	const made = new arrow.Table(columns);
	return new arrow.Table(schema, made.batches.map(b => new arrow.RecordBatch(
		schema, b.data)));
}

async function at(version, operation) {
	const handle = await db.openTable(name);
	await handle.checkout(version);
	return run(handle, operation);
}

async function look() {
	const handle = await db.openTable(name);
	const rows = await handle.query().select(["id"]).toArrow();
	return [await handle.version(), await handle.countRows(), rows.numRows];
}

async function watch(path, ms) {
	const turns = [];
	let slow = 0, last = false;
	do {
		last = turns.length > 0 && !existsSync(path);
		const began = performance.now();
		try {
			turns.push(await look());
			if (turns.length === 1)
				writeFileSync(path, "");
		} catch (e) {
			if (performance.now() - began < ms)
				throw e;
			slow++;
		}
		await new Promise(done => setTimeout(done, 20));
	} while (!last);
	return { turns, slow };
}

async function run(table, [verb, ...args]) {
	switch (verb) {
	case "count":
		return table.countRows(args[0]);
	case "refuses":
		return table.query().where(args[0]).toArrow()
			.then(() => false, () => true);
	case "version":
		return table.version();
	case "schema":
		return (await table.schema()).fields.map(
			f => [f.name, f.type.toString(), f.nullable]);
	case "indices":
		return (await table.listIndices()).map(i => i.name);
	case "plan":
		return table.query().where(args[0]).explainPlan(true);
	case "index": {
		const s = await table.indexStats(args[0]);
		return s && { type: s.indexType, rows: s.numIndexedRows,
			lacking: s.numUnindexedRows, segments: s.numIndices };
	}
	case "create_index":
		await table.createIndex(args[0],
			{ config: lancedb.Index[args[1]]() });
		return table.version();
	case "drop_index":
		await table.dropIndex(args[0]);
		return table.version();
	case "rows": {
		const { where, columns, limit } = args[0] ?? {};
		let query = table.query();
		if (where)
			query = query.where(where);
		if (columns)
			query = query.select(columns);
		if (limit)
			query = query.limit(limit);
		return rows_of(await query.toArrow());
	}
	case "add":
		await table.add(table_of(await table.schema(), args[0]));
		return table.version();
	case "delete":
		await table.delete(args[0]);
		return table.version();
	case "upsert":
		// Into the base table: by default the engine would append to a
		// shard of its own.
		await table.mergeInsert(args[0]).whenMatchedUpdateAll()
			.whenNotMatchedInsertAll().useLsmWrite(false)
			.execute(table_of(await table.schema(), args[1]));
		return table.version();
	case "optimize":
		await table.optimize();
		return table.version();
	case "add_column":
		await table.addColumns([{ name: args[0], valueSql: args[1] }]);
		return table.version();
	case "meet":
		writeFileSync(args[0], "");
		while (existsSync(args[0]))
			await new Promise(done => setTimeout(done, 20));
		return table.version();
	case "at":
		return at(...args);
	case "gone":
		return at(args[0], ["count"]).then(() => false, () => true);
	case "tag":
		return (await table.tags()).create(...args);
	case "untag":
		return (await table.tags()).delete(args[0]);
	case "watch":
		return watch(...args);
	default:
		throw new Error(`unknown operation ${verb}`);
	}
}

const [dir, name, how] = process.argv.slice(2);
const db = await lancedb.connect(dir);
const table = await db.openTable(name);
if (how === "lines") {
	for await (const line of createInterface({ input: process.stdin }))
		process.stdout.write(JSON.stringify(
			await run(table, JSON.parse(line)) ?? null) + "\n");
} else {
	const answers = [];
	for (const op of JSON.parse(readFileSync(0, "utf8")))
		answers.push(await run(table, op));
	process.stdout.write(JSON.stringify(answers));
}
