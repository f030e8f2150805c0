// wal_entry.mjs read ENTRY STREAM FILE: apache-arrow reads what wal_entry.c
// wrote: batches, values, metadata. wal_entry.mjs write STREAM FILE: writes what
// wal_entry.c has to read. The rows are those of tests/unit/arrow_rows.h.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const arrow = createRequire(import.meta.url)("apache-arrow");

const field = (name, type) => new arrow.Field(name, type, true);

const fields = [
	field("b", new arrow.Bool()),
	field("i8", new arrow.Int8()),
	field("i32", new arrow.Int32()),
	field("i64", new arrow.Int64()),
	field("u32", new arrow.Uint32()),
	field("u64", new arrow.Uint64()),
	field("f", new arrow.Float32()),
	field("d", new arrow.Float64()),
	field("t", new arrow.TimestampMicrosecond()),
	field("tz", new arrow.TimestampMicrosecond("UTC")),
	field("s", new arrow.Utf8()),
	field("ls", new arrow.LargeUtf8()),
	field("x", new arrow.Binary()),
	field("lx", new arrow.LargeBinary()),
	field("vec", new arrow.FixedSizeList(3, field("item", new arrow.Float32()))),
	field("tags", new arrow.List(field("item", new arrow.Utf8()))),
	field("steps", new arrow.List(field("item", new arrow.Struct([
		field("k", new arrow.Utf8()),
		field("v", new arrow.Float64()),
	])))),
];

const textAt = (i) => "abc".slice(0, i % 4) + i;
const isNullAt = (column, i) => (i + column) % 5 === 3;
const small = (i) => BigInt(i) * 0x9e3779b9n;
const large = (i) => BigInt(i) * 0x9e3779b97f4a7c15n;
const items = (i, of) => Array.from({ length: i % 4 }, (_, k) => of(i + k, k));

const values = {
	b: (i) => i % 3 === 0,
	i8: (i) => (i << 24) >> 24,
	i32: (i) => Number(BigInt.asIntN(32, small(i))),
	i64: (i) => BigInt.asIntN(64, large(i)),
	u32: (i) => Number(BigInt.asUintN(32, small(i))),
	u64: (i) => BigInt.asUintN(64, large(i)),
	f: (i) => i / 2,
	d: (i) => i / 3,
	t: (i) => BigInt.asIntN(64, large(i)),
	tz: (i) => BigInt.asIntN(64, large(i)),
	s: textAt,
	ls: textAt,
	x: (i) => Buffer.from(textAt(i)),
	lx: (i) => Buffer.from(textAt(i)),
	vec: (i) => [i, i + 1, i + 2],
	tags: (i) => items(i, (n, k) => k === 2 ? null : textAt(n)),
	steps: (i) => items(i, (n, k) => ({ k: textAt(n), v: k === 1 ? null : n })),
};

// Numbers lie in the buffer as they are; apache-arrow makes floats of time
// stamps, both ways.
const isNumber = (type) => arrow.DataType.isInt(type) ||
	arrow.DataType.isFloat(type) || arrow.DataType.isTimestamp(type);

function plain(value) {
	if (value === null || value === undefined)
		return null;
	if (value instanceof Uint8Array)
		return Buffer.from(value);
	if (value instanceof arrow.StructRow)
		return Object.fromEntries(Object.entries(value.toJSON())
			.map(([k, v]) => [k, plain(v)]));
	if (value instanceof arrow.Vector)
		return Array.from(value, plain);
	return value;
}

function check(batches, schema, rows) {
	let at = 0;
	assert.deepEqual(schema.fields.map(String), fields.map(String));
	assert.deepEqual(batches.map((b) => b.numRows), rows);
	for (const batch of batches) {
		for (let i = 0; i < batch.numRows; i++) {
			fields.forEach((f, k) => {
				const column = batch.getChildAt(k);
				if (isNullAt(k, at + i)) {
					assert.equal(column.isValid(i), false);
					return;
				}
				assert.deepEqual(isNumber(f.type) ?
					column.data[0].values[i] : plain(column.get(i)),
					values[f.name](at + i), `${f.name} ${at + i}`);
			});
		}
		at += batch.numRows;
	}
}

function read(entry, stream, file) {
	for (const path of [entry, stream]) {
		const reader = arrow.RecordBatchReader.from(readFileSync(path)).open();
		const schema = reader.schema;
		const batches = [...reader];
		check(batches, schema, [5, 5, 5]);
		assert.deepEqual([...schema.metadata], [["writer_epoch", "3"]]);
	}
	const table = arrow.tableFromIPC(readFileSync(file));
	check(table.batches, table.schema, [15]);
}

// width numbers a row. Not by a builder for fixed-size lists either: that of
// apache-arrow leaves out the items of nulls at the end.
function numbers(k, first, count) {
	const type = fields[k].type;
	const width = type.listSize ?? 1;
	const item = type.listSize ? type.children[0].type : type;
	const data = new item.ArrayType(count * width);
	const bits = new Uint8Array(Math.ceil(count / 8));
	let nulls = 0;
	for (let i = 0; i < count; i++) {
		if (isNullAt(k, first + i)) {
			nulls++;
			continue;
		}
		bits[i >> 3] |= 1 << (i & 7);
		data.set([values[fields[k].name](first + i)].flat(), i * width);
	}
	const common = { type, length: count, nullCount: nulls, nullBitmap: bits };
	return arrow.makeData(type.listSize ? { ...common, child:
		arrow.makeData({ type: item, length: data.length, data }) } :
		{ ...common, data });
}

function built(k, first, count) {
	const builder = arrow.makeBuilder({ type: fields[k].type,
		nullValues: [null] });
	for (let i = first; i < first + count; i++)
		builder.append(isNullAt(k, i) ? null : values[fields[k].name](i));
	return builder.finish().flush();
}

function write(stream, file) {
	const schema = new arrow.Schema(fields);
	const batches = [0, 10].map((first) => new arrow.RecordBatch(schema,
		arrow.makeData({
			type: new arrow.Struct(fields),
			length: 10,
			nullCount: 0,
			children: fields.map((f, k) => (isNumber(f.type) ||
				f.type.listSize ? numbers : built)(k, first, 10)),
		})));
	const table = new arrow.Table(schema, batches);
	writeFileSync(stream, arrow.tableToIPC(table, "stream"));
	writeFileSync(file, arrow.tableToIPC(table, "file"));
}

const [what, ...paths] = process.argv.slice(2);
if (what === "read")
	read(...paths);
else if (what === "write")
	write(...paths);
else
	throw new Error("read or write");
