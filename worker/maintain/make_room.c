#include "common/base.h"

#include "worker/maintain/make_room.h"

#define STORES_MAX 32u

void
make_room(uint64_t used_ns, void (*seal)(struct shm_ref))
{
	static uint32_t index;		/* where the last call ended */
	uint32_t looked, found = 0, first = index;
	struct shm_ref ref;

	for (looked = 0; looked < shm_store_slots() && found < STORES_MAX;
	    looked++) {
		struct shm_slot *slot;

		if (!shm_store_next(&index, &ref)) {
			index = 0;
			if (first == 0)
				break;
			first = 0;
			continue;
		}
		slot = shm_store_slot(ref);
		if (slot == NULL || atomic_load(&slot->dirty) == 0 ||
		    atomic_load_explicit(&slot->last_used_ns,
		    memory_order_relaxed) > used_ns)
			continue;
		seal(ref);
		found++;
	}
}
