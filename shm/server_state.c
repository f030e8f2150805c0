#include "common/base.h"

#include "shm/instance.h"
#include "shm/part.h"
#include "shm/server_state.h"

static const struct {
	const char *text;
	bool not_ready, closes;
} marks[] = {
#define X(mark, text, not_ready, closes) { text, not_ready, closes },
	SHM_SERVER_MARKS(X)
#undef X
};

static struct {
	alignas(CACHELINE)
	_Atomic uint32_t word;		/* bit n: mark n */
} *server;

uint64_t
shm_server_state_bytes(const struct shm_config *cfg)
{
	(void)cfg;
	return sizeof(*server);
}

void
shm_server_state_carve(void *at, const struct shm_config *cfg)
{
	(void)cfg;
	server = at;
	shm_server_set(SHM_SERVER_STARTING);
	shm_server_set(SHM_SERVER_JOINING);
}

void
shm_server_set(enum shm_server_mark mark)
{
	MUST(mark < SHM_SERVER_MARK_COUNT);
	atomic_fetch_or_explicit(&server->word, 1u << mark,
	    memory_order_release);
}

void
shm_server_clear(enum shm_server_mark mark)
{
	MUST(mark < SHM_SERVER_MARK_COUNT);
	atomic_fetch_and_explicit(&server->word, ~(1u << mark),
	    memory_order_release);
}

static uint32_t
read_word(void)
{
	return atomic_load_explicit(&server->word, memory_order_acquire);
}

bool
shm_server_is(enum shm_server_mark mark)
{
	return (read_word() >> mark & 1) != 0;
}

const char *
shm_server_not_ready(void)
{
	uint32_t word = read_word(), i;

	for (i = 0; i < SHM_SERVER_MARK_COUNT; i++) {
		if ((word >> i & 1) != 0 && marks[i].not_ready)
			return marks[i].text;
	}
	return shm_lease_held() ? NULL : "no lease";
}

bool
shm_server_replies_close(void)
{
	uint32_t word = read_word(), i;
	bool closes = false;

	for (i = 0; i < SHM_SERVER_MARK_COUNT; i++)
		closes |= (word >> i & 1) != 0 && marks[i].closes;
	return closes;
}
