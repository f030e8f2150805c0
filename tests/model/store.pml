/*
 * store.pml - one store of two shards, end to end (design 4 to 6): each has a
 * writer, one of them a second one that takes over; they write rows of one key,
 * or of a key each; seals, folds, compaction and collection go on meanwhile.
 *
 * Here each commit is an entry of its own, put if absent (--wal=put), and a put
 * that was given up may land late. protocol.pml is a shard whose entries are
 * appended to. A row is its sequence, taken when its commit starts: 1, 2, 3.
 *
 * A process that stops anywhere is one that was paused or killed.
 *
 * What must hold, in every state:
 *	of each key the newest acknowledged row, or a newer one, is found by
 *	whoever starts now (Monitor), and by each read that begins later;
 *	no base version holds a key twice;
 *	nothing is folded into a version that is pinned.
 */
#ifndef KEYS
#define KEYS 1			/* 2: each shard has its own */
#endif
#ifndef ROWS
#define ROWS 1			/* commits that each writer tries */
#endif
#ifndef SHARDS
#define SHARDS 2		/* 1: nobody writes to the other one */
#endif
#ifndef SECOND
#define SECOND 0		/* shard 0 gets another writer */
#endif
#ifndef MAINTAINERS
#define MAINTAINERS 1
#endif
#ifndef WORK
#define WORK 2			/* seals and folds that each maintainer does */
#endif
#ifndef SEALED
#define SEALED 0		/* nobody writes: a generation in each shard */
#endif
#ifndef COMPACTS
#define COMPACTS 0
#endif
#ifndef COLLECTS
#define COLLECTS 0
#endif
#ifndef PINS
#define PINS 0
#endif
#ifndef READS
#define READS 0
#endif

#define NV 8			/* manifest versions, from 1 */
#define NP 7			/* WAL positions, from 1 */
#define NG 5			/* generations, from 1 */
#define NB 7			/* base versions, from 1 */
#define SENT 15
#define EMPTY 14		/* the first entry of a claim */
#define DATA(e) ((e) != 0 && (e) != SENT)
#define ROW(e) ((e) != 0 && (e) < EMPTY)
#define BIT(r) (1 << (r))

/* The store, as it is on the disk; two shards side by side. */
byte mnew[2], mex[2], mep[2 * NV], mra[2 * NV], mpend[2 * NV];
byte wal[2 * NP], wep[2 * NP];
byte gnew[2], grow[2 * NG], gex[2];
byte bnew = 1, bex = 2, brow[NB], bprog[2 * NB], bpin[NB];
#define M(s, v) ((s) * NV + (v))
#define W(s, p) ((s) * NP + (p))
#define G(s, g) ((s) * NG + (g))
#define B(s, b) ((s) * NB + (b))

#ifdef NO_BASE_TOO
#define BASE_TOO 0
#else
#define BASE_TOO bnew
#endif

byte late[2], latep[2], latee[2];	/* a put under way that nobody waits for */

/* Shared memory. */
byte vm[2], vb = 1, cp[2];
bool reading; byte rm[2], rb;

/* What is true. */
byte clock = 0, acked = 0, ofkey[2];	/* rows of a key, acknowledged or not */

/* The newest row of a key in a set. */
inline newest_in(zset, zkey, zrow)
{
	zrow = 7;
	do
	:: zrow > 0 && !(BIT(zrow) & (zset) & ofkey[zkey]) -> zrow--
	:: else -> break
	od
}

/* Of each key but the newest row: what a source or a base keeps. */
inline merge(zall, zkept)
{
	newest_in(zall, 0, i);
	j = (i > 0 -> BIT(i) : 0);
#if KEYS == 2
	newest_in(zall, 1, i);
	j = j | (i > 0 -> BIT(i) : 0);
#endif
	zkept = j;
	i = 0;
	j = 0
}

/* Of generations of a shard that are newer than its progress: rows. */
inline rows_of(zs, zpend, zafter, zacc)
{
	i = (zafter) + 1;
	do
	:: i < NG ->
		if
		:: (zpend) & BIT(i) -> zacc = zacc | grow[G(zs, i)]
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline tail_of(zs, zafter, zupto, zacc)
{
	i = (zafter) + 1;
	do
	:: i < NP && i <= (zupto) && wal[W(zs, i)] != 0 ->
		if
		:: ROW(wal[W(zs, i)]) -> zacc = zacc | BIT(wal[W(zs, i)])
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline swap(zs, zm, zb)
{
	if
	:: (zm) > vm[zs] -> vm[zs] = zm
	:: else
	fi;
	if
	:: (zb) > vb -> vb = zb
	:: else
	fi
}

/* Two steps: the put of a version, and the listing after it. */
inline put_manifest(zs, zv, zep, zra, zpend, zok)
{
	if
	:: zv + 1 >= NV || (mex[zs] & BIT(zv + 1)) -> zok = false
	:: else ->
		mex[zs] = mex[zs] | BIT(zv + 1);
		mep[M(zs, zv + 1)] = zep;
		mra[M(zs, zv + 1)] = zra;
		mpend[M(zs, zv + 1)] = zpend;
		zok = true;
		if
		:: mnew[zs] < zv + 1 -> mnew[zs] = zv + 1
		:: else
		fi
	fi
}

inline list_manifests(zs, zv, zok)
{
	if
	:: mnew[zs] > zv + 1 ->
		mex[zs] = mex[zs] & ~BIT(zv + 1);
		zok = false
	:: else
	fi
}

proctype Writer(byte s)
{
	byte v, e, p, n, row;
	bool ok;

claim:	skip;
	d_step { v = mnew[s]; e = mep[M(s, v)] + 1; p = mra[M(s, v)] + 1 };
	d_step { put_manifest(s, v, e, mra[M(s, v)], mpend[M(s, v)], ok) };
	if
	:: !ok && v + 2 >= NV -> goto end
	:: !ok && v + 2 < NV -> goto claim
	:: else
	fi;
	d_step { list_manifests(s, v, ok) };
	if
	:: !ok -> goto claim
	:: else
	fi;
	atomic {	/* a sentinel at the first free position */
		do
		:: p < NP - 2 && wal[W(s, p)] != 0 -> p++
		:: else -> break
		od;
		if
		:: p >= NP - 2 -> goto end
		:: else -> wal[W(s, p)] = SENT; wep[W(s, p)] = e
		fi
	}
	atomic {	/* still ours, and above all that was sealed? */
		if
		:: mep[M(s, mnew[s])] != e || mra[M(s, mnew[s])] >= p ->
			goto end
		:: else -> v = mnew[s]
		fi
	}
	atomic {	/* the first entry */
		p++;
		if
		:: p >= NP || wal[W(s, p)] != 0 -> goto end
		:: else -> wal[W(s, p)] = EMPTY; wep[W(s, p)] = e
		fi
	}
	row = BASE_TOO;
	d_step { swap(s, v, row); row = 0 };
	do
	:: n < ROWS ->
		atomic {
			n++;
			clock++;
			row = clock;
			ofkey[s % KEYS] = ofkey[s % KEYS] | BIT(row)
		}
put:		atomic {
			if
			:: p + 1 >= NP -> goto end
			:: p + 1 < NP && wal[W(s, p + 1)] == 0 ->
				p++;
				wal[W(s, p)] = row;
				wep[W(s, p)] = e
			:: p + 1 < NP && wal[W(s, p + 1)] == 0 && late[s] == 0 ->
				/* Neither stored nor refused: given up. */
				late[s] = row;
				latep[s] = p + 1;
				latee[s] = e;
				goto next
			:: p + 1 < NP && wal[W(s, p + 1)] != 0 ->
				/* Ours, landed late? Else fenced. */
				if
#ifdef LATE_IS_OURS
				:: wep[W(s, p + 1)] == e -> p++
#else
				:: wep[W(s, p + 1)] == e -> p++; goto put
#endif
				:: else -> goto end
				fi
			fi
		}
		atomic {
			if
			:: p > cp[s] -> cp[s] = p
			:: else
			fi;
			acked = acked | BIT(row)
		}
next:		skip
	:: n >= ROWS -> break
	od;
end:	skip
}

proctype Late(byte s)
{
endidle: atomic {
		late[s] != 0;
		if
		:: wal[W(s, latep[s])] == 0 ->
			wal[W(s, latep[s])] = late[s];
			wep[W(s, latep[s])] = latee[s]
		:: else
		fi
	}
}

proctype Maintainer()
{
	byte s, v, b, g, p, r, add, take, k, i, j;
	bool ok;

	do
	:: k < WORK ->
		d_step { k++; v = 0; b = 0; g = 0; p = 0; r = 0; add = 0;
			take = 0; ok = false; s = 0 };
#if SHARDS == 2
		if
		:: true
		:: s = 1
		fi;
#endif
		if
		:: goto seal
		:: mpend[M(s, mnew[s])] != 0 -> goto fold
		fi;
seal:		skip;
		d_step {
			v = mnew[s];
			i = mra[M(s, v)] + 1;
			do
			:: i < NP && wal[W(s, i)] != 0 ->
				if
				:: DATA(wal[W(s, i)]) -> p = i
				:: else
				fi;
				i++
			:: else -> break
			od;
			tail_of(s, mra[M(s, v)], p, r)
		}
		if
		:: r == 0 || gnew[s] + 1 >= NG -> goto next
		:: else
		fi;
		d_step {	/* the generation's files, then the manifest */
			gnew[s] = gnew[s] + 1;
			g = gnew[s];
			grow[G(s, g)] = r;
			gex[s] = gex[s] | BIT(g)
		}
		d_step { put_manifest(s, v, mep[M(s, v)], p,
			mpend[M(s, v)] | BIT(g), ok) };
		if
		:: !ok -> goto next
		:: else
		fi;
		d_step { list_manifests(s, v, ok) };
		/* Published with the base as it is after that. */
		if
		:: ok -> b = BASE_TOO; d_step { swap(s, v + 1, b) }
		:: else	/* in it already, or somebody else sealed */
		fi;
		goto next;
fold:		skip;
		d_step {
			v = mnew[s];
			take = mpend[M(s, v)];
			g = NG - 1;
			do
			:: g > 0 && !(take & BIT(g)) -> g--
			:: else -> break
			od
		}
		if
		:: g == 0 -> goto next
		:: else
		fi;
#ifdef PIN_ASKED_BEFORE
		if
		:: bpin[bnew] -> goto next
		:: else
		fi;
#endif
		/* Prepared once; each try probes the newest base. */
		d_step { b = bnew; rows_of(s, take, bprog[B(s, b)], add) };
probe:		skip;
		d_step {
			b = bnew;
			i = 0;
#ifdef NO_SEQ
			/* What is folded replaces what is there. */
			merge(add, r);
			newest_in(r, 0, i);
			r = r | (i > 0 -> brow[b] & ~ofkey[0] : brow[b]);
			i = 0
#else
			merge(add | brow[b], r)
#endif
		}
commit:		atomic {
			if
			:: b + 1 >= NB -> goto end
			:: b + 1 < NB && bprog[B(s, b)] >= g -> goto drain
#ifndef PIN_ASKED_BEFORE
			:: b + 1 < NB && bprog[B(s, b)] < g && bpin[b] ->
				goto next
#endif
			:: else
			fi;
			if
			:: bex & BIT(b + 1) ->
#ifdef NO_REPROBE
				/* Rebased: what it added goes on top. */
				r = brow[bnew] | (r & ~brow[b]);
				b = bnew;
				goto commit
#else
				goto probe
#endif
			:: else
			fi;
			assert(!bpin[b]);
			bex = bex | BIT(b + 1);
			brow[b + 1] = r;
			bprog[B(0, b + 1)] = bprog[B(0, b)];
			bprog[B(1, b + 1)] = bprog[B(1, b)];
			bprog[B(s, b + 1)] = g;
			b++;
			if
			:: bnew < b -> bnew = b
			:: else
			fi;
			merge(r, p);
			assert(p == r)
		}
		atomic {	/* the newest bears our progress? */
			if
			:: bprog[B(s, bnew)] < g ->
				bex = bex & ~BIT(b);
				goto probe
			:: else
			fi
		}
drain:		skip;
		d_step {
			v = mnew[s];
			put_manifest(s, v, mep[M(s, v)], mra[M(s, v)],
			    mpend[M(s, v)] & ~take, ok)
		}
		if
		:: ok ->
			d_step { list_manifests(s, v, ok) };
			if
			:: ok -> d_step { swap(s, v + 1, b) }
			:: else
			fi
		:: else
		fi;
next:		skip
	:: break
	od;
end:	skip
}

/* Rewrites the fragments of the base into one: the rows are those that are
 * there when it commits, not those that it has read. */
proctype Compactor()
{
	byte k, b, r, s, i, j, had;

	do
	:: k < COMPACTS ->
		d_step { k++; b = bnew; had = brow[b] }
again:		skip;
		d_step { b = bnew };
		atomic {
			if
			:: b + 1 >= NB || bpin[b] || had == 0 -> goto next
			:: else
			fi;
			if
			:: bex & BIT(b + 1) -> goto again
			:: else
			fi;
#ifdef NO_REMAP
			r = brow[b] | had;
#else
			r = brow[b];
#endif
			bex = bex | BIT(b + 1);
			brow[b + 1] = r;
			bprog[B(0, b + 1)] = bprog[B(0, b)];
			bprog[B(1, b + 1)] = bprog[B(1, b)];
			if
			:: bnew < b + 1 -> bnew = b + 1
			:: else
			fi;
			merge(r, s);
			assert(s == r);
			s = 0
		}
next:		skip
	:: break
	od
}

/* A pin is a commit of the base table that says so. */
proctype Pinner()
{
	byte k, b;

	do
	:: k < PINS ->
		k++;
		atomic {
			b = bnew;
			if
			:: b + 1 < NB && !(bex & BIT(b + 1)) ->
				bex = bex | BIT(b + 1);
				brow[b + 1] = brow[b];
				bprog[B(0, b + 1)] = bprog[B(0, b)];
				bprog[B(1, b + 1)] = bprog[B(1, b)];
				bpin[b + 1] = !bpin[b];
				bnew = b + 1
			:: else
			fi
		}
	:: break
	od
}

/* What is in no view, nor in what stands. */
proctype Collector()
{
	byte k, i, s;

	do
	:: k < COLLECTS ->
		k++;
#if SHARDS == 2
		if
		:: true
		:: s = 1
		fi;
#endif
		if
		:: d_step {
			i = 1;
			do
			:: i < mnew[s] && (!(mex[s] & BIT(i)) || i == vm[s] ||
			   (reading && i == rm[s])) -> i++
			:: else -> break
			od;
			if
			:: i < mnew[s] -> mex[s] = mex[s] & ~BIT(i)
			:: else
			fi;
			i = 0; s = 0 }
		:: d_step {
			i = 1;
			do
			:: i < bnew && (!(bex & BIT(i)) || i == vb ||
			   (reading && i == rb)) -> i++
			:: else -> break
			od;
			if
			:: i < bnew -> bex = bex & ~BIT(i)
			:: else
			fi;
			i = 0; s = 0 }
		:: d_step {	/* the oldest entry, not below a sentinel */
			i = 1;
			do
			:: i < NP - 1 && !(DATA(wal[W(s, i)]) &&
			   DATA(wal[W(s, i + 1)])) -> i++
			:: else -> break
			od;
			if
			:: i < NP - 1 && i <= mra[M(s, mnew[s])] &&
			   i <= mra[M(s, vm[s])] &&
			   (!reading || i <= mra[M(s, rm[s])]) ->
				wal[W(s, i)] = 0
			:: else
			fi;
			i = 0; s = 0 }
		:: d_step {	/* a generation that was folded */
			i = 1;
			do
			:: i < NG && !((gex[s] & BIT(i)) &&
			   i <= bprog[B(s, bnew)] &&
			   !(mpend[M(s, mnew[s])] & BIT(i)) &&
			   (i <= bprog[B(s, vb)] ||
			    !(mpend[M(s, vm[s])] & BIT(i))) &&
			   (!reading || i <= bprog[B(s, rb)] ||
			    !(mpend[M(s, rm[s])] & BIT(i)))) -> i++
			:: else -> break
			od;
			if
			:: i < NG -> gex[s] = gex[s] & ~BIT(i)
			:: else
			fi;
			i = 0; s = 0 }
		fi
	:: break
	od
}

/* Last commits, then the view under its serial. */
proctype Reader()
{
	byte k, must, c0, c1, got, r, a, i;

	do
	:: k < READS ->
#ifdef BASE_FIRST
		/* No shared view: loaded in the wrong order. */
		atomic { must = acked; reading = true; rb = bnew };
		d_step { rm[0] = mnew[0]; rm[1] = mnew[1]; c0 = cp[0]; c1 = cp[1] };
#else
		d_step { k++; must = acked; c0 = cp[0]; c1 = cp[1] };
		d_step { reading = true; rm[0] = vm[0]; rm[1] = vm[1]; rb = vb };
#endif
		atomic {
			d_step {
				got = brow[rb];
				rows_of(0, mpend[M(0, rm[0])] & gex[0],
				    bprog[B(0, rb)], got);
				rows_of(1, mpend[M(1, rm[1])] & gex[1],
				    bprog[B(1, rb)], got);
				tail_of(0, mra[M(0, rm[0])], c0, got);
				tail_of(1, mra[M(1, rm[1])], c1, got);
				newest_in(got, 0, r);
				newest_in(must, 0, a);
#if KEYS == 2
				if
				:: a <= r ->
					newest_in(got, 1, r);
					newest_in(must, 1, a)
				:: else
				fi
#endif
			}
			assert(bex & BIT(rb));
			assert(r >= a)
		}
#ifdef BASE_FIRST
		k++;
#endif
		d_step { reading = false; must = 0; c0 = 0; c1 = 0; got = 0; r = 0;
			a = 0 }
	:: break
	od
}

/* If everything died now: what would be found? */
proctype Monitor()
{
	byte found, r, a, i;

	atomic {
		d_step {
			found = brow[bnew];
			rows_of(0, mpend[M(0, mnew[0])] & gex[0],
			    bprog[B(0, bnew)], found);
			rows_of(1, mpend[M(1, mnew[1])] & gex[1],
			    bprog[B(1, bnew)], found);
			tail_of(0, mra[M(0, mnew[0])], NP, found);
			tail_of(1, mra[M(1, mnew[1])], NP, found);
			newest_in(found, 0, r);
			newest_in(acked, 0, a);
#if KEYS == 2
			if
			:: a <= r ->
				newest_in(found, 1, r);
				newest_in(acked, 1, a)
			:: else
			fi
#endif
		}
		assert(r >= a)
	}
}

init {
	byte i;

	atomic {
		mnew[0] = 1; mnew[1] = 1; mex[0] = 2; mex[1] = 2;
		vm[0] = 1; vm[1] = 1;
#if SEALED
		/* Row 1 in shard 0, row 2 in shard 1. */
		clock = 2; acked = 6;
		ofkey[0] = ofkey[0] | 2; ofkey[1 % KEYS] = ofkey[1 % KEYS] | 4;
		grow[G(0, 1)] = 2; grow[G(1, 1)] = 4;
		gnew[0] = 1; gnew[1] = 1; gex[0] = 2; gex[1] = 2;
		mpend[M(0, 1)] = 2; mpend[M(1, 1)] = 2;
#if SECOND
		run Writer(0);
#endif
#else
		run Writer(0);
#if SHARDS == 2
		run Writer(1);
#endif
#if SECOND
		run Writer(0);
#endif
		run Late(0);
#if SHARDS == 2
		run Late(1);
#endif
#endif
		i = 0;
		do
		:: i < MAINTAINERS -> run Maintainer(); i++
		:: else -> break
		od;
		i = 0;
#if COMPACTS
		run Compactor();
#endif
#if PINS
		run Pinner();
#endif
#if COLLECTS
		run Collector();
#endif
#if READS
		run Reader();
#endif
		run Monitor()
	}
}
