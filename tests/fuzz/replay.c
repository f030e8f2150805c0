#include "common/base.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

/*
 * replay - a main for a fuzz target where libFuzzer is not there (make check).
 *
 *	x_fuzz CORPUS
 *
 * Each file of the folder once as it is, then mutants of them, always the same
 * ones, for two seconds (a minute with LONG=1). A finding is a crash or a
 * sanitizer's report. Prints "N passed, 0 failed", N being the files.
 */

#define FILES_MAX	4096
#define FILE_BYTES_MAX	(1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static struct input {
	uint8_t *bytes;
	size_t len;
} inputs[FILES_MAX];
static size_t input_count;

static uint64_t state = 88172645463325252ull;

static uint64_t
next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void
read_input(const char *path)
{
	struct input *in = &inputs[input_count];
	struct stat st;
	FILE *f;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	MUST(input_count < FILES_MAX);
	MUST(st.st_size <= FILE_BYTES_MAX);
	f = fopen(path, "rb");
	MUST(f != NULL);
	in->len = (size_t)st.st_size;
	in->bytes = malloc(in->len + 1);
	MUST(in->bytes != NULL);
	MUST(fread(in->bytes, 1, in->len, f) == in->len);
	fclose(f);
	input_count++;
}

static void
read_corpus(const char *dir)
{
	struct dirent **names;
	char path[4096];
	int i, n = scandir(dir, &names, NULL, alphasort);

	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		read_input(path);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* A few bytes changed, a run cut out or said twice, the end cut off. */
static size_t
mutate(const struct input *in, uint8_t *out)
{
	size_t len = in->len, at, run, changes = 1 + next_random() % 4;

	memcpy(out, in->bytes, len);
	while (changes-- > 0 && len > 0) {
		at = next_random() % len;
		run = 1 + next_random() % 16;	/* apart: MIN looks twice */
		run = MIN(run, len - at);
		switch (next_random() % 6) {
		case 0:
			out[at] = (uint8_t)next_random();
			break;
		case 1:
			out[at] ^= (uint8_t)(1u << next_random() % 8);
			break;
		case 2:
			out[at] = "\0\xff\"{}[],:0\r\n"[next_random() % 12];
			break;
		case 3:
			memmove(out + at, out + at + run, len - at - run);
			len -= run;
			break;
		case 4:
			memmove(out + at + run, out + at, len - at);
			len += run;
			break;
		default:
			len = at;
		}
	}
	return len;
}

/* A copy of the exact size, so that a read beyond it is noticed. */
static void
run_one(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len == 0 ? 1 : len);

	MUST(copy != NULL);
	memcpy(copy, bytes, len);
	LLVMFuzzerTestOneInput(copy, len);
	free(copy);
}

int
main(int argc, char **argv)
{
	static uint8_t mutant[FILE_BYTES_MAX + 64];
	const char *wish = getenv("LONG");
	time_t end = time(NULL) + (wish != NULL && *wish == '1' ? 60 : 2);
	size_t i;

	if (argc != 2) {
		fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	read_corpus(argv[1]);
	if (input_count == 0) {
		fprintf(stderr, "%s: no file\n", argv[1]);
		return 1;
	}
	for (i = 0; i < input_count; i++)
		run_one(inputs[i].bytes, inputs[i].len);
	while (time(NULL) < end) {
		const struct input *in = &inputs[next_random() % input_count];

		run_one(mutant, mutate(in, mutant));
	}
	printf("%zu passed, 0 failed\n", input_count);
	return 0;
}
