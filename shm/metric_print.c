#include "common/base.h"

#include <stdio.h>

#include "shm/metric_table.h"

/*
 * Prometheus text 0.0.4. A series of endpoints is printed once it has counted
 * anything, since most pairs of route and status never happen; all others
 * always, so that a dashboard sees a zero before the first event.
 */

struct printer {
	struct buf *out;
	const struct shm_metric_endpoint *endpoints;
	uint32_t endpoint_count;
};

static const char *const type_names[] = { "counter", "gauge", "histogram" };

static bool
is_seconds(const char *name)
{
	size_t len = strlen(name), tail = strlen("_seconds");

	return len > tail && strcmp(name + len - tail, "_seconds") == 0;
}

/* name="value", to labels, behind a comma if there is something. Values are
 * ours: no character in them needs an escape. */
static size_t
put_label(char *labels, size_t room, size_t at, const char *name,
    const char *value)
{
	int n;

	if (*value == '\0')
		return at;
	n = snprintf(labels + at, room - at, "%s%s=\"%s\"", at > 0 ? "," : "",
	    name, value);
	MUST(n > 0 && (size_t)n < room - at);
	return at + (size_t)n;
}

static size_t
put_one(const struct printer *p, char *labels, size_t room, size_t at,
    enum metric_label_id id, uint32_t value)
{
	const struct metric_label *label = &metric_labels[id];

	if (id == LABEL_NONE)
		return at;
	if (id == LABEL_ENDPOINT) {
		at = put_label(labels, room, at, "method",
		    p->endpoints[value].method);
		return put_label(labels, room, at, "path",
		    p->endpoints[value].path);
	}
	return put_label(labels, room, at, label->name, label->values[value]);
}

static bool
print_histogram(const struct printer *p, const struct metric_row *row,
    const char *labels, const uint64_t *sums)
{
	const struct metric_buckets *b = &metric_buckets[row->buckets];
	double unit = is_seconds(row->name) ? 1e9 : 1;
	const char *comma = *labels != '\0' ? "," : "";
	const char *open = *labels != '\0' ? "{" : "";
	const char *shut = *labels != '\0' ? "}" : "";
	uint64_t below = 0;
	uint32_t i;

	for (i = 0; i < b->count; i++) {
		below += sums[i];
		if (!buf_printf(p->out, "%s_bucket{%s%sle=\"%.10g\"} %llu\n",
		    row->name, labels, comma, (double)b->bounds[i] / unit,
		    (unsigned long long)below))
			return false;
	}
	below += sums[i];
	return buf_printf(p->out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n"
	    "%s_sum%s%s%s %.17g\n%s_count%s%s%s %llu\n",
	    row->name, labels, comma, (unsigned long long)below,
	    row->name, open, labels, shut, (double)sums[i + 1] / unit,
	    row->name, open, labels, shut, (unsigned long long)below);
}

static bool
print_series(const struct printer *p, enum shm_metric m, uint32_t a,
    uint32_t b)
{
	const struct metric_row *row = &metric_rows[m];
	uint32_t count_b = metric_labels[row->label_b].count;
	uint64_t sums[METRIC_WORDS_MAX], any = 0;
	char labels[512] = "";
	uint32_t i;
	size_t at;

	metric_sum(m, a * count_b + b, sums);
	if (row->label_a == LABEL_ENDPOINT) {
		for (i = 0; i < metric_words(m); i++)
			any |= sums[i];
		if (any == 0)
			return true;
	}
	at = put_one(p, labels, sizeof(labels), 0, row->label_a, a);
	put_one(p, labels, sizeof(labels), at, row->label_b, b);
	if (row->type == METRIC_TYPE_HISTOGRAM)
		return print_histogram(p, row, labels, sums);
	return buf_printf(p->out, *labels != '\0' ? "%s{%s} %lld\n" :
	    "%s%s %lld\n", row->name, labels, (long long)sums[0]);
}

static bool
print_metric(const struct printer *p, enum shm_metric m)
{
	const struct metric_row *row = &metric_rows[m];
	uint32_t count_a = row->label_a == LABEL_ENDPOINT ?
	    p->endpoint_count : metric_labels[row->label_a].count;
	uint32_t count_b = metric_labels[row->label_b].count;
	uint32_t a, b;

	if (!buf_printf(p->out, "# HELP %s %s\n# TYPE %s %s\n", row->name,
	    row->help, row->name, type_names[row->type]))
		return false;
	for (a = 0; a < count_a; a++) {
		for (b = 0; b < count_b; b++) {
			if (!print_series(p, m, a, b))
				return false;
		}
	}
	return true;
}

struct err
shm_metric_print(struct buf *out, const struct shm_metric_endpoint *endpoints,
    uint32_t endpoint_count)
{
	struct printer p = { out, endpoints, endpoint_count };
	int m;

	MUST(endpoint_count <= METRIC_ENDPOINT_COUNT);
	for (m = 0; m < METRIC_COUNT; m++) {
		if (!print_metric(&p, m))
			return FAIL(NO_MEMORY, "print metrics");
	}
	if (!metric_print_tables(out) || !metric_print_processes(out))
		return FAIL(NO_MEMORY, "print metrics");
	return OK;
}
