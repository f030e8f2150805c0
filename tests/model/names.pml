/*
 * names.pml - a name, its store, and the next store of that name: create,
 * append, delete, create again, by instances that share nothing but the
 * directory (design 6.6; registry.h, remove.h).
 *
 * A name has an entry in the registry, which says the uuid of its store, and a
 * directory, whose table bears one. Directories are numbered as they are made;
 * who has opened one holds that, whatever the name leads to by now. A deletion
 * renames the directory away, then takes the entry. Creates and deletions of a
 * name exclude each other by a lock that the kernel gives back when its holder
 * dies. Whoever stops is one that was paused; DIE is one that was killed.
 *
 * What must hold: a row that was acknowledged, and since the beginning of whose
 * append no deletion was under way, is in the directory of its name, and that
 * is the one that the registry means. A create that was answered, likewise,
 * has left a store that can be opened.
 */
#ifndef CREATORS
#define CREATORS 2
#endif
#ifndef DELETERS
#define DELETERS 2
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef ROWS
#define ROWS 2			/* appends that each writer tries */
#endif
#define ND 6			/* directories, from 1 */
#define NR (WRITERS * ROWS)
#define BIT(r) (1 << (r))
#define ANY 255

byte reg, dir;			/* what the name leads to; 0: nothing */
byte table[ND], rows[ND];	/* by directory: uuid, rows */
byte nd, nu;
bool locked;
byte begun, done;		/* deletions */
byte nr, acked, since[NR];	/* deletions begun when the append began */
bool made;			/* a create was answered, */
byte made_since;		/* and that many deletions had begun */

#ifdef NO_NAME_LOCK
#define LOCK skip
#define UNLOCK skip
#else
#define LOCK atomic { !locked; locked = true }
#define UNLOCK locked = false
#endif
#define DIE if :: true :: UNLOCK; goto end fi

/* What the deletions were when this begins; ANY: one is under way. */
#define SINCE (begun == done -> begun : ANY)

proctype Creator()
{
	byte u, d, mine;

	mine = SINCE;
endwait: LOCK;
	if
	:: reg != 0 || nd + 1 >= ND -> UNLOCK; goto end
	:: else
	fi;
	atomic {		/* the directory, made if there is none */
		nu++;
		u = nu;
		if
		:: dir == 0 -> nd++; dir = nd
		:: else
		fi;
		d = dir
	}
	DIE;
	atomic {		/* the table, put if absent */
		if
		:: table[d] == 0 -> table[d] = u; goto enter
		:: else
		fi
	}
	atomic {		/* what a create that died left: adopted */
		if
		:: dir == 0 || table[dir] == 0 -> UNLOCK; goto end
		:: else -> u = table[dir]
		fi
	}
enter:	DIE;
	atomic {
		if
		:: reg != 0 -> UNLOCK; goto end
		:: else -> reg = u
		fi
	}
	atomic {
		UNLOCK;
		if
		:: mine != ANY && begun == mine ->
			made = true;
			made_since = mine
		:: else
		fi
	}
end:	skip
}

proctype Deleter()
{
	byte u;

endidle: atomic { reg != 0; begun++; u = reg }
endwait: LOCK;
	atomic {
		if
		:: reg != u -> UNLOCK; goto end	/* removed before us */
		:: else
		fi
	}
	dir = 0;		/* renamed away */
	DIE;
	reg = 0;
	UNLOCK;
	done++;
end:	skip
}

proctype Writer()
{
	byte u, d, n, mine;

open:	skip;
	d_step { u = 0; d = 0 };
endidle: atomic { reg != 0 && n < ROWS; u = reg }
	atomic {
		d = dir;
		if
		:: d == 0 -> goto end
		:: else
		fi
	}
#ifndef NO_UUID
	if
	:: table[d] != u -> goto end
	:: else
	fi;
#endif
	if
	:: reg != u -> goto end
	:: else
	fi;
	do
	:: n < ROWS ->
		atomic { n++; mine = SINCE }
		/* Whether the name still leads there. */
#ifdef LOOK_EXISTS
		if
		:: reg == 0 -> goto open
		:: else
		fi;
#else
		if
		:: dir != d -> goto open
		:: else
		fi;
#endif
		atomic {
			since[nr] = mine;
			rows[d] = rows[d] | BIT(nr);
			acked = acked | BIT(nr);
			nr++
		}
	:: n >= ROWS -> break
	od;
end:	skip
}

proctype Monitor()
{
	byte i;

	atomic {
		d_step {
			i = 0;
			do
			:: i < NR && !((acked & BIT(i)) && since[i] != ANY && since[i] == SINCE &&
			   !(dir != 0 && (rows[dir] & BIT(i)) &&
			   table[dir] == reg)) -> i++
			:: else -> break
			od
		}
		assert(i == NR);
		assert(!(made && made_since == SINCE) ||
		    (dir != 0 && table[dir] == reg))
	}
}

init {
	byte i;

	atomic {
		i = 0;
		do
		:: i < CREATORS -> run Creator(); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < DELETERS -> run Deleter(); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < WRITERS -> run Writer(); i++
		:: else -> break
		od;
		run Monitor()
	}
}
