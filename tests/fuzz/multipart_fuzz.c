#include "common/base.h"

#include <stdlib.h>

#include "tests/unit/multipart_naive.h"

/*
 * The first byte says in what pieces the rest, the body, comes; its boundary
 * is Q. What must hold: whole and in pieces the same is told, with the same
 * outcome; what is taken has the parts that the naive way finds.
 */

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice type = SLICE("multipart/form-data; boundary=Q"), body;
	struct told whole, pieces;
	struct buf naive;
	uint32_t parts;
	struct err e, f;

	if (size < 2)
		return 0;
	body = slice_make(data + 1, size - 1);
	e = told_read(&whole, type, body, SIZE_MAX);
	f = told_read(&pieces, type, body, 1 + data[0] % 67u);
	MUST(e.kind == f.kind && strcmp(e.what, f.what) == 0);
	MUST(slice_eq(buf_slice(&whole.text), buf_slice(&pieces.text)));
	if (!err_is(e)) {
		size_t names = 0;

		buf_init(&naive, 64u << 20);
		naive_parts(body, "Q", &naive, &parts);
		MUST(parts == whole.parts);
		/* The rest of what was told are the names. */
		names = whole.text.len - naive.len;
		MUST(names >= 2 * (size_t)parts);
		buf_free(&naive);
	}
	buf_free(&whole.text);
	buf_free(&pieces.text);
	/* As the header that names the boundary. */
	e = told_read(&whole, body, SLICE("--Q--"), SIZE_MAX);
	MUST(!err_is(e) || e.kind == ERR_BAD_INPUT);
	buf_free(&whole.text);
	return 0;
}
