/*
 * guests.pml - one shard whose ordinal moves: its home, guests, leases, the
 * assignment, drain marks, retiring (design 7; master/member.h, orphan.h,
 * worker/store/guest.h).
 *
 * The assignment is one word that is changed by compare and set, which chain.pml
 * is about. A claim is the steps of design 4; seal and fold are one step, and so
 * is a commit behind its fence: protocol.pml is about those. A lease ends at any
 * time, also between two steps of who goes by it: nothing is assumed of clocks.
 * Whoever is at a step may stay there for as long as the search wants, which is
 * the sleeping writer and the claimer that wakes late.
 *
 *	1	the home: writes rows, ages its shard while the ordinal is its own
 *	2, 3	guests: claim it when it is theirs and has something left, age it
 *
 * What must hold:
 *	an acknowledged row is found by whoever starts now (derive);
 *	once nobody moves any more all of them are in the base, whoever slept,
 *	died or lost his lease before, also if the ordinal is retired; and a home
 *	that lives has its ordinal, unless an operator wants it otherwise (Rest).
 */
#ifndef ROWS
#define ROWS 2			/* appends that the home tries */
#endif
#ifndef GUESTS
#define GUESTS 1
#endif
#ifndef OPS
#define OPS 1			/* what an operator does */
#endif
#ifndef LEASES
#define LEASES 0		/* how often the home loses its lease */
#endif
#ifndef DIES
#define DIES 0			/* deaths */
#endif
#ifndef RETIRES
#define RETIRES 0
#endif

#define HOME 1
#define NI (GUESTS + 2)
#define NP 15			/* WAL positions, from 1 */
#define NONE 0
#define DATA 1
#define SENT 2
#define OPEN 255		/* an end that nobody has recorded */
#define BIT(r) (1 << (r))

/* In the store: the shard. Entries are the sets of their rows, and so are ends. */
byte mep, mra;			/* the manifest's epoch and replay_after */
byte wk[NP], wr[NP], cend[NP];
byte base;

/* In the store: the assignment. */
byte owner = HOME, version;
bool retired, drained;
bool decided;			/* by a master, not by an operator */

/* Segments. */
bool left[NI];			/* it was moved from here, not yet seen */
bool live[NI], fresh[NI];	/* the claim; the one that is being made */
byte cep[NI];			/* its epoch */
byte closed, cend1;		/* the home's closed entry, and its end */
bool held = true, gone;		/* the home's lease, and its server */
bool home_due;			/* a term whose ordinals are to come home */

/* What is true. */
byte rows, acked;
byte ops, leases, dies;
bool cramped;			/* no room left in the model */

/* What follows from the above: rows behind replay_after; those that any may
 * seal, and up to where; the first entry whose end nobody has recorded. */
byte tail, can, upto, first;

/* After each change of the shard. */
inline derive()
{
	d_step {
		tail = 0; can = 0; upto = mra; first = 0; found = base;
		j = mra + 1;
		do
		:: j < NP ->
			if
			:: wk[j] == DATA && first == 0 && cend[j] != OPEN ->
				can = can | cend[j];
				upto = j
			:: wk[j] == DATA && first == 0 && cend[j] == OPEN ->
				first = j
			:: else
			fi;
			if
			:: wk[j] == DATA ->
				tail = tail | wr[j];
				found = found | (wr[j] & cend[j])
			:: else
			fi;
			j++
		:: else -> break
		od;
		if
		:: can == 0 -> upto = mra	/* waits for one with rows */
		:: else
		fi;
		assert((acked & ~found) == 0);
		j = 0; found = 0
	}
}

inline assign(to, automatic)
{
	if
	:: owner != 0 && owner != to -> left[owner] = true
	:: else
	fi;
	owner = to;
	version++;
	decided = automatic;
	retired = false
}

/* The newest assignment comes into a segment: what was another's in between is
 * not taken for ours (shm_ordinal_moves). */
inline look(i)
{
	if
	:: left[i] -> left[i] = false; live[i] = false; fresh[i] = false
	:: else
	fi
}

/* What any may seal, and its fold. */
inline age()
{
	base = base | can;
	mra = upto;
	derive()
}

/* The process dies here, and its server does not notice before that. */
#if DIES
#define DIE(i)	if \
		:: dies < DIES -> dies++; live[i] = false; fresh[i] = false; \
			goto dead \
		:: true \
		fi
#else
#define DIE(i)	skip
#endif

/* Steps 1 to 5; ends at the label claimed, lost or dead. e, p, q are locals. */
inline claim(i)
{
	atomic {
		mep++;
		e = mep;
		p = mra + 1;
		DIE(i)
	}
	atomic {
		do
		:: p < NP - 1 && wk[p] != NONE -> p++
		:: else -> break
		od;
		if
		:: p >= NP - 2 -> cramped = true; goto lost
		:: else -> wk[p] = SENT
		fi;
		DIE(i)
	}
	atomic {
		if
		:: mep != e || mra >= p -> goto lost
		:: else
		fi;
		d_step {
			q = p - 1;
			do
			:: q > 0 && wk[q] != DATA -> q--
			:: else -> break
			od;
			x = wr[q];
			if
			:: cend[q] != OPEN -> q = 0
			:: else
			fi
		}
	}
	atomic {
		p++;
		if
		:: wk[p] != NONE -> goto lost
		:: else
		fi;
		wk[p] = DATA;
		cend[p] = OPEN;
		if
		:: q > 0 -> cend[q] = x
		:: else
		fi;
		q = 0; x = 0;
		derive();
		DIE(i)
	}
}

#ifdef NO_GUEST_EPOCH
#define NEWEST(i) (true)
#else
#define NEWEST(i) (cep[i] == mep)
#endif

/* The home's worker. */
proctype Home()
{
	byte e, p, q, x, row, j, found;

endhome: do
	:: atomic { !cramped && !live[HOME] && held && owner == HOME &&
	   (rows < ROWS || tail != 0) ->
		look(HOME);
		fresh[HOME] = true;
		closed = 0
	   }
		claim(HOME);
#ifndef NO_CHECK_AGAIN
		/* Whether it is still ours, now that the claim stands. */
		atomic {
			look(HOME);
			if
			:: !held || owner != HOME -> goto lost
			:: else
			fi
		}
#endif
		atomic {
			live[HOME] = fresh[HOME];
			fresh[HOME] = false;
			cep[HOME] = e;
			e = 0
		}
	/* What the segment says of claim, lease and ordinal is looked at; the
	 * write may be later. */
	:: atomic { live[HOME] && rows < ROWS -> row = BIT(rows); rows++ }
		atomic {
			if
			:: !closed -> wr[p] = wr[p] | row
			:: else ->
				p++;
				if
				:: p >= NP - 2 -> cramped = true; goto lost
				:: p < NP - 2 && wk[p] != NONE -> goto lost
				:: else
				fi;
				wk[p] = DATA;
				wr[p] = row;
				cend[p] = OPEN;
				cend[p - 1] = cend1;
				closed = 0;
				cend1 = 0
			fi;
			derive();
			DIE(HOME)
		}
		atomic {
#ifndef NO_FENCE
			if
			:: wk[p + 1] != NONE -> goto lost
			:: else
			fi;
#endif
			cend1 = cend1 | row;
			acked = acked | row;
			row = 0;
			derive()
		}
	/* Asked to, or since it knows that it has moved. */
	:: atomic { live[HOME] && !closed && cend1 != 0 -> closed = p }
#ifndef NO_HOME_EPOCH
	/* Its seal found a later epoch, of a claim that went no further. */
	:: atomic { live[HOME] && closed != 0 && cep[HOME] != mep -> goto lost }
#endif
	:: atomic { false ->
lost:		live[HOME] = false;
		fresh[HOME] = false;
		closed = 0; cend1 = 0;
		e = 0; p = 0; q = 0; x = 0; row = 0 }
	:: atomic { false ->
dead:		closed = 0; cend1 = 0;
		e = 0; p = 0; q = 0; x = 0; row = 0;
		derive();
		if
		:: true			/* another worker takes its place */
		:: gone = true; held = false; goto end
		fi }
	od;
end:	skip
}

/* The home's maintainer and master. */
proctype Keeper()
{
	byte j, found;

endkeep: do
	:: atomic { !gone && (owner == HOME || left[HOME]) && can != 0 ->
		age() }
	/* What its own worker has closed: only under that epoch. */
	:: atomic { !gone && (owner == HOME || left[HOME]) && closed != 0 &&
	   closed == first && cep[HOME] == mep ->
		base = base | can | cend1;
		mra = closed;
		derive() }
	:: atomic { left[HOME] -> look(HOME) }
	/* Whoever has it: at the beginning of a term, or when a master gave it
	 * away. */
	:: atomic { !gone && held && owner != HOME && !drained && (home_due
#ifndef NO_TAKE_BACK
	   || decided
#endif
	   ) ->
		assign(HOME, false);
		home_due = false }
	:: atomic { held && owner == HOME && home_due -> home_due = false }
	od
}

/* The home's lease: lost, maybe got again. */
proctype Lease()
{
endlease: do
	:: atomic { leases < LEASES && held ->
		leases++;
		held = false;
		live[HOME] = false;
		fresh[HOME] = false }
		if
		:: atomic { !gone -> held = true; home_due = true }
		:: atomic { true -> break }
		fi
	od
}

/* Another master: of a home that is gone somebody takes the ordinal. It was
 * looked at before. */
proctype Decider()
{
	byte v;

enddecide: do
	:: atomic { !held && owner == HOME -> v = version }
		atomic {
			if
			:: version == v -> assign(2, true)
			:: else
			fi;
			v = 0
		}
	od
}

/* Its worker, its maintainer and its master, who orders fold jobs for as long
 * as the ordinal is not at home. */
proctype Guest(byte i)
{
	byte e, p, q, x, j, found;

endguest: do
	:: atomic { owner == i && can != 0 && live[i] && NEWEST(i) ->
		look(i);
		age() }
	:: atomic { !cramped && owner == i && tail != 0 &&
	   !(live[i] && NEWEST(i)) ->
		look(i);
		fresh[i] = true
	   }
		claim(i);
		atomic {
			live[i] = fresh[i];
			fresh[i] = false;
			cep[i] = e;
			e = 0; p = 0
		}
	:: atomic { left[i] -> look(i) }
	:: atomic { false ->
lost:		live[i] = false;
		fresh[i] = false;
dead:		e = 0; p = 0; q = 0; x = 0 }
	od
}

/* With its marks, which keep the home from taking the ordinal. */
proctype Operator()
{
	do
	:: ops < OPS ->
		if
		:: atomic { owner == HOME -> ops++; assign(2, false) }
		:: atomic { owner == HOME ->
			ops++;
			drained = true;
			assign(2, false) }
		:: atomic { drained ->
			ops++;
			drained = false;
			home_due = true }
#if GUESTS > 1
		:: atomic { owner == 2 -> ops++; assign(3, false) }
		:: atomic { owner == 3 -> ops++; assign(2, false) }
#endif
		:: atomic { owner > HOME -> ops++; assign(HOME, false) }
		:: atomic { true -> goto end }
		fi
	:: else -> break
	od;
end:	skip
}

/* Gives up what lies with the second instance and has nothing left. */
proctype Retirer()
{
	byte e, p, q, x, j, found, v;

endretire: atomic { owner == 2 -> v = version }
#ifndef NO_RETIRE_FENCE
	claim(2);
#endif
	atomic {
		if
		:: tail != 0 -> goto end	/* refused */
		:: else
		fi
	}
	atomic {
		if
		:: version == v -> assign(0, false); retired = true
		:: else
		fi
	}
lost:
dead:
end:	skip
}

/* When nobody can do anything any more. */
proctype Rest()
{
endrest: atomic { timeout;
	if
	:: cramped
	:: else ->
		assert((acked & ~base) == 0);
		assert(owner == HOME || retired || !held || drained ||
		    (!decided && !home_due))
	fi }
}

init {
	atomic {
		run Home();
		run Keeper();
#if LEASES || DIES
		run Decider();
#endif
#if LEASES
		run Lease();
#endif
		run Guest(2);
#if GUESTS > 1
		run Guest(3);
#endif
		run Operator();
#if RETIRES
		run Retirer();
#endif
		run Rest()
	}
}
