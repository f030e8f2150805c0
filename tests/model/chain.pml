/*
 * chain.pml - compare and set as a row of versions, each put if absent (design
 * 7; worker/object/chain.h): the assignment of ordinals, a lease.
 *
 * Each writer brings one change into the newest version. A version is the set of
 * changes that it was made with. Listing is one step, as are get, put if absent
 * and delete; an answer may be lost (the put is read back), a put may come
 * late, when its writer has long put it again; whoever stops was killed. The
 * collector removes all but the newest version, at any time.
 *
 * What must hold: a change that its writer was told stands is in the newest
 * version from then on.
 */
#ifndef WRITERS
#define WRITERS 3
#endif
#ifndef COLLECTS
#define COLLECTS 2		/* removals */
#endif
#ifndef LATE
#define LATE 1			/* puts that come late */
#endif
#define NV 10			/* versions, from 1 */
#define BIT(w) (1 << (w))
#define NOBODY 255

byte has[NV];			/* the changes in it; 0: absent */
byte by[NV];			/* who put it, for the read back */
byte believed;			/* changes whose writers were told */
byte late_v, late_has, late_by = NOBODY;
byte lates;

inline newest(v)
{
	d_step {
		v = NV - 1;
		do
		:: v > 0 && has[v] == 0 -> v--
		:: else -> break
		od
	}
}

/* In the newest version there is all that anybody was told of. */
inline check()
{
	d_step {
		m = NV - 1;
		do
		:: m > 0 && has[m] == 0 -> m--
		:: else -> break
		od;
		assert((has[m] & believed) == believed);
		m = 0
	}
}

inline put(v, content, w)
{
	if
	:: has[v] == 0 -> has[v] = content; by[v] = w
	:: else
	fi
}

proctype Writer(byte w)
{
	byte v, n, content, m;

again:
	atomic {
		newest(v);
		content = has[v];
		if
		:: (content & BIT(w)) -> believed = believed | BIT(w); check();
		    goto end
		:: else
		fi
	}
	if
	:: v + 1 >= NV -> goto end
	:: else
	fi;
	if
	:: true -> goto end		/* killed, or asleep for ever */
	:: true
	fi;
	atomic {
		put(v + 1, content | BIT(w), w);
		if
		:: lates < LATE -> lates++;
		    late_v = v + 1; late_has = content | BIT(w); late_by = w
		:: true
		fi
	}
	/* Ours or not: by its bytes, whatever the answer was. */
	atomic {
		if
		:: has[v + 1] != 0 && by[v + 1] == w
		:: else -> goto again
		fi
	}
#ifndef NO_CHAIN_LIST
	newest(n);
	if
	:: n > v + 1 ->
		atomic {
			if
			:: by[v + 1] == w -> has[v + 1] = 0
			:: else
			fi
		}
		goto again
	:: else
	fi;
#endif
	atomic { believed = believed | BIT(w); check() }
end:
	skip
}

proctype Late()
{
	byte m;

	do
	:: atomic { late_by != NOBODY -> put(late_v, late_has, late_by);
	    late_by = NOBODY; check() }
	:: break
	od
}

proctype Collector()
{
	byte n, v, i, m;

	do
	:: i < COLLECTS ->
		i++;
		newest(n);
		v = 1;
		do
		:: v < n -> atomic { has[v] = 0; check() }; v++
		:: else -> break
		od
	:: break
	od
}

init
{
	byte w;

	atomic {
		w = 0;
		do
		:: w < WRITERS -> run Writer(w); w++
		:: else -> break
		od;
		run Late();
		run Collector()
	}
}
