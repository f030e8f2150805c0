/*
 * protocol.pml - claim, append, rotate, seal, fold, drain, collection, reads,
 * delete and re-create of one shard of one store, end to end (design 4 to 6).
 *
 * A process that stops anywhere is one that was paused or killed: every
 * interleaving in which it never moves again is among those searched. A second
 * Owner is the shard's next one, or the same one after a restart; a second
 * Maintainer likewise, so no guard keeps two of them apart. Rows are bits; each
 * is written once.
 *
 * What must hold, in every state:
 *	an acknowledged row is found by whoever starts now (Monitor), and by
 *	each read that begins later (Reader);
 *	the base never gets a row that it has;
 *	a file that a view in use names is there;
 *	the new store of a name holds none of the old one's rows.
 *
 * Each rule of the protocol can be dropped with a flag; README.md says which
 * rule of the design that is, and run.py that the search then finds the loss.
 */
#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef ROWS
#define ROWS 1			/* commits that each owner tries */
#endif
#ifndef MAINTAINERS
#define MAINTAINERS 1
#endif
#ifndef WORK
#define WORK 2			/* seals and folds that each maintainer does */
#endif
#ifndef COLLECTS
#define COLLECTS 0
#endif
#ifndef OTHERS
#define OTHERS 0		/* base versions of compaction, or of another
				 * shard's folds */
#endif
#ifndef READS
#define READS 0
#endif
#ifndef DELETES
#define DELETES 0
#endif

#define NV 10			/* manifest versions, from 1 */
#define NP 8			/* WAL positions, from 1 */
#define NG 6			/* generations, from 1 */
#define NB 6			/* base versions, from 1 */
#define K  2			/* commits that an entry holds */
#define NONE 0
#define DATA 1
#define SENT 2
#define OPEN 15			/* an end that nobody has recorded */
#define BIT(g) (1 << (g))

/* The store, as it is on disk. */
byte store = 1;			/* which store of that name there is */
byte mnew = 1, mep[NV], mra[NV], mpend[NV];
short mex = 2;			/* manifest versions that are there */
byte wk[NP], wc[NP * K], ln[NP], cend[NP];
byte gnew = 0, grow[NG], gex;	/* gex: generations whose files are there */
byte bnew = 1, brow[NB], bprog[NB], bex = 2;

/* Shared memory. */
byte vm = 1, vb = 1;		/* the view */
byte cp = 0, ce = 0;		/* the published end */
bool dead[OWNERS + 1];
byte closed[OWNERS + 1], oep[OWNERS + 1];
bool reading; byte rm, rb;	/* the view that the reader has booked */
bool deleted;

/* What is true. */
byte rows = 0, acked = 0, fresh = 0;

/* Whether a name leads to the store that the process has opened. Paths are
 * relative to a directory that it holds open; by name, late work would hit
 * whatever bears the name now. */
#ifdef BY_NAME
#define HERE(s) (true)
#else
#define HERE(s) (store == (s))
#endif

/* The seal of an entry whose end nobody has recorded: only under the epoch that
 * its owner had. */
#ifdef NO_SEAL_EPOCH
#define SAME_EPOCH (true)
#else
#define SAME_EPOCH (mep[v] == oep[1])
#endif

/* A generation that no read under way has in its view. */
#ifdef NO_SERIAL
#define UNREAD(g) (true)
#else
#define UNREAD(g) (!reading || (g) <= bprog[rb] || !(mpend[rm] & BIT(g)))
#endif

inline rows_of(q, upto, acc)
{
	if
	:: (upto) > 0 -> acc = acc | wc[(q) * K]
	:: else
	fi;
	if
	:: (upto) > 1 -> acc = acc | wc[(q) * K + 1]
	:: else
	fi
}

/* The element-wise maximum, never another. */
inline swap(m, b)
{
	if
	:: (m) > vm -> vm = m
	:: else
	fi;
	if
	:: (b) > vb -> vb = b
	:: else
	fi
}

/*
 * Puts manifest version v + 1, made from v with the given changes. Its writer
 * lists the folder afterwards: a higher version means that it filled a hole.
 * ok tells whether it stands.
 */
inline put_manifest(v, ep, ra, pend, ok)
{
	atomic {
		if
		:: v + 1 >= NV || (mex & BIT(v + 1)) -> ok = false
		:: else ->
			mex = mex | BIT(v + 1);
			mep[v + 1] = ep;
			mra[v + 1] = ra;
			mpend[v + 1] = pend;
			ok = true;
#ifndef NO_LIST
			if
			:: mnew > v + 1 ->
				mex = mex & ~BIT(v + 1);
				ok = false
			:: else
			fi;
#endif
			if
			:: mnew < v + 1 -> mnew = v + 1
			:: else
			fi
		fi
	}
}

proctype Owner(byte id)
{
	byte s, v, e, ra, p, q, x, n, row;
	bool ok;

	atomic { !deleted; s = store }
claim:	skip;
	d_step {
		v = mnew;
		e = mep[v] + 1;
		ra = mra[v]
	}
	if
	:: v + 2 >= NV || !HERE(s) -> goto end
	:: else
	fi;
	atomic {
		if
		:: !HERE(s) -> goto end
		:: else
		fi;
		put_manifest(v, e, ra, mpend[v], ok);
		if
		:: !ok -> goto claim
		:: else -> oep[id] = e
		fi
	}
	p = ra + 1;
#ifndef NO_SENTINEL
	do
	:: atomic { p >= NP - 2 || !HERE(s) -> goto end }
	:: atomic { p < NP - 2 && HERE(s) && wk[p] != NONE -> p++ }
	:: atomic { p < NP - 2 && HERE(s) && wk[p] == NONE ->
		wk[p] = SENT;
		break }
	od;
#ifndef NO_RECHECK
	/* Whether the shard is still ours, and the sentinel above all that was
	 * sealed. */
	atomic {
		if
		:: !HERE(s) || mep[mnew] != e || mra[mnew] >= p -> goto end
		:: else
		fi
	}
#endif
	p++;
#else
	do
	:: atomic { p >= NP - 2 || !HERE(s) -> goto end }
	:: atomic { p < NP - 2 && HERE(s) && wk[p] != NONE -> p++ }
	:: atomic { p < NP - 2 && HERE(s) && wk[p] == NONE -> break }
	od;
#endif
	/* The tail: the last data entry below, unless its end is recorded. */
	atomic {
		if
		:: !HERE(s) -> goto end
		:: else
		fi;
		d_step {
			q = p - 1;
			do
			:: q > 0 && wk[q] != DATA -> q--
			:: else -> break
			od;
			x = ln[q];
			if
			:: q > 0 && cend[q] != OPEN -> q = 0
			:: else
			fi
		}
	}
	/* The first data entry. */
	atomic {
		if
		:: !HERE(s) || wk[p] != NONE -> goto end
		:: else
		fi;
		wk[p] = DATA;
		if
		:: q > 0 -> cend[q] = x
		:: else
		fi
	}
	do
	:: n < ROWS && (ln[p] == K || n > 0) ->
		/* Rotate: the entry is full, or somebody asked. */
		atomic {
			if
			:: p >= NP - 2 || !HERE(s) || wk[p + 1] != NONE ->
				goto end
			:: else
			fi;
			wk[p + 1] = DATA;
			cend[p] = ln[p];
			p++
		};
		goto write
	:: n < ROWS && ln[p] < K ->
write:		atomic {
			if
			:: deleted || !HERE(s) -> goto end
			:: else
			fi;
			row = BIT(rows);
			rows++;
			if
			:: s > 1 -> fresh = fresh | row
			:: else
			fi;
			wc[p * K + ln[p]] = row;
			ln[p] = ln[p] + 1;
			n++
		}
		/* Killed and reaped before it was answered. */
		if
		:: true
		:: dead[id] = true; goto end
		fi;
		atomic {
			if
			:: !HERE(s) -> goto end
#ifndef NO_FENCE
			:: HERE(s) && wk[p + 1] != NONE -> goto end
#endif
			:: else
			fi;
			/* Published, then answered. */
			if
			:: p > cp -> cp = p; ce = ln[p]
			:: p == cp -> ce = ln[p]
			:: else
			fi;
			acked = acked | row
		}
	:: n > 0 -> closed[id] = p; break
	:: n > 0 -> dead[id] = true; break
	od;
end:	skip
}

/* Of the host of owner 1: it knows that one's closed entry and its death. */
proctype Maintainer(byte id)
{
	byte s, v, p, x, r, b, g, take, add, k;
	bool ok;

	atomic { !deleted; s = store }
	do
	:: k < WORK && mnew + 1 < NV && HERE(s) ->	/* seal */
		k++;
		atomic {
			if
			:: !HERE(s) -> goto end
			:: else
			fi;
			d_step {
				v = mnew;
				p = mra[v] + 1;
				ok = false;
				x = 0;
				r = 0;
				do	/* sentinels hold nothing */
				:: p < NP - 1 && wk[p] == SENT -> p++
				:: else -> break
				od;
				if
				:: wk[p] == DATA && cend[p] != OPEN ->
					ok = true;
					x = cend[p]
				:: wk[p] == DATA && cend[p] == OPEN &&
				   (dead[1] || closed[1] == p) && SAME_EPOCH ->
					ok = true;
					x = ln[p]
				:: else
				fi;
				rows_of(p, x, r)
			}
		}
		if
		:: !ok || gnew + 1 >= NG -> goto next
		:: else
		fi;
		/* The generation's files, then the manifest that names it. */
		atomic {
			if
			:: !HERE(s) -> goto end
			:: else
			fi;
			gnew++;
			g = gnew;
			grow[g] = r;
			gex = gex | BIT(g)
		}
		atomic {
			if
			:: !HERE(s) -> goto end
			:: else
			fi;
			put_manifest(v, mep[v], p, mpend[v] | BIT(g), ok);
			if
			:: ok -> swap(v + 1, 0)
			:: else
			fi
		}
		goto next
	:: k < WORK && mnew + 1 < NV && HERE(s) &&
	   mpend[mnew] != 0 ->				/* fold */
		k++;
		atomic {
			if
			:: !HERE(s) -> goto end
			:: else
			fi;
			d_step {
				v = mnew;
				take = mpend[v];
				b = bnew;
				g = NG - 1;
				do
				:: g > 0 && !(take & BIT(g)) -> g--
				:: else -> break
				od
			}
		}
prepare:	/* Reads the generations and the base, for long, without a lock. */
		atomic {
			if
			:: !HERE(s) || take == 0 -> goto next
			:: else
			fi;
			d_step {
				add = 0;
				x = 1;
				do
				:: x < NG ->
					if
					:: (take & BIT(x)) &&
					   x > bprog[b] ->
						add = add | grow[x]
					:: else
					fi;
					x++
				:: else -> break
				od
			}
		}
commit:		atomic {
			if
			:: !HERE(s) || b + 1 >= NB -> goto end
			:: HERE(s) && b + 1 < NB && bprog[b] >= g ->
				goto drain	/* it is there already */
			:: else
			fi;
			if
			:: (bex & BIT(b + 1)) ->
				/* Lost the race: look again. */
				b = bnew;
#ifdef NO_REPROBE
				goto commit
#else
				goto prepare
#endif
			:: else
			fi;
			assert((brow[b] & add) == 0);
			bex = bex | BIT(b + 1);
			brow[b + 1] = brow[b] | add;
			bprog[b + 1] = g;
			b++;
			if
			:: bnew < b -> bnew = b
			:: else
			fi
		}
#ifndef NO_BASE_CHECK
		/* The newest version bears our progress, else it was a hole. */
		atomic {
			if
			:: !HERE(s) -> goto end
			:: HERE(s) && bprog[bnew] < g ->
				b = bnew;
				goto prepare
			:: else
			fi
		}
#endif
drain:		atomic {
			if
			:: !HERE(s) || mnew + 1 >= NV -> goto end
			:: else
			fi;
#ifdef ABSOLUTE_DRAIN
			put_manifest(mnew, mep[mnew], mra[mnew],
			    mpend[v] & ~take, ok);
#else
			put_manifest(mnew, mep[mnew], mra[mnew],
			    mpend[mnew] & ~take, ok);
#endif
			swap(mnew, bnew)
		}
		goto next
	:: break
next:		skip;
		d_step {
			v = 0; p = 0; x = 0; r = 0; b = 0; g = 0; take = 0;
			add = 0; ok = false
		}
	od;
end:	skip
}

/*
 * Takes away what is in no view: neither in the newest state, nor in the shared
 * view, nor in the one that a reader has booked.
 */
proctype Collector()
{
	byte k, i;

	do
	:: k < COLLECTS ->
		k++;
		if
		:: atomic {	/* a manifest version, never the newest */
			i = 1;
			do
			:: i < mnew && (!(mex & BIT(i)) || i == vm ||
			   (reading && i == rm)) -> i++
			:: else -> break
			od;
			if
			:: i < mnew -> mex = mex & ~BIT(i)
			:: else
			fi }
		:: atomic {	/* a base version */
			i = 1;
			do
			:: i < bnew && (!(bex & BIT(i)) || i == vb ||
			   (reading && i == rb)) -> i++
			:: else -> break
			od;
			if
			:: i < bnew -> bex = bex & ~BIT(i)
			:: else
			fi }
		:: atomic {	/* the oldest WAL entry, while its successor
				 * is there and holds data */
			i = 1;
			do
			:: i < NP - 2 && wk[i] != DATA -> i++
			:: else -> break
			od;
			if
			:: wk[i] == DATA && i <= mra[mnew] && i <= mra[vm] &&
			   (!reading || i <= mra[rm]) &&
			   wk[i + 1] == DATA ->
				wk[i] = NONE
			:: else
			fi }
		:: atomic {	/* a generation that was folded */
			i = 1;
			do
			:: i < NG && !((gex & BIT(i)) && i <= bprog[bnew] &&
			   !(mpend[mnew] & BIT(i)) &&
			   (i <= bprog[vb] || !(mpend[vm] & BIT(i))) &&
			   UNREAD(i)) -> i++
			:: else -> break
			od;
			if
			:: i < NG -> gex = gex & ~BIT(i)
			:: else
			fi }
		fi
	:: break
	od
}

/* Commits base versions that change nothing for this shard. */
proctype Other()
{
	byte k, s;

	atomic { !deleted; s = store }
	do
	:: k < OTHERS ->
		k++;
		atomic {
			if
			:: HERE(s) && bnew + 1 < NB ->
				bex = bex | BIT(bnew + 1);
				brow[bnew + 1] = brow[bnew];
				bprog[bnew + 1] = bprog[bnew];
				bnew++;
				swap(0, bnew)
			:: else
			fi
		}
	:: break
	od
}

/* A read on the host: last commits, then the view under its serial. */
proctype Reader()
{
	byte k, s, must, upto, end, got, i;

	do
	:: k < READS ->
		k++;
		atomic { must = acked; s = store; upto = cp; end = ce }
		atomic { reading = true; rm = vm; rb = vb }
		atomic {
			/* Its store was deleted: a 404, and nothing to hold. */
			if
			:: s != store -> goto done
			:: else
			fi;
			got = brow[rb];
			assert(bex & BIT(rb));
			i = 1;
			do
			:: i < NG ->
				if
				:: (mpend[rm] & BIT(i)) && i > bprog[rb] ->
					assert(gex & BIT(i));
					got = got | grow[i]
				:: else
				fi;
				i++
			:: else -> break
			od;
			i = mra[rm] + 1;
			do
			:: i < NP && i <= upto ->
				assert(wk[i] != NONE);
				if
				:: wk[i] == DATA && i == upto ->
					rows_of(i, end, got)
				:: wk[i] == DATA && i != upto ->
					if
					:: cend[i] != OPEN ->
						rows_of(i, cend[i], got)
					:: else -> rows_of(i, ln[i], got)
					fi
				:: else
				fi;
				i++
			:: else -> break
			od;
			assert((must & ~got) == 0)
		}
done:		atomic { reading = false; got = 0; must = 0; upto = 0; end = 0 }
	:: break
	od
}

/* Renames the directory away; then somebody creates the name anew. */
proctype Deleter()
{
	byte i;

	if
	:: deleted = true;
		d_step {
			store = 2;
			acked = 0;
			mnew = 1; mex = 2; gnew = 0; gex = 0; bnew = 1; bex = 2;
			/* The new store has a slot of its own. */
			vm = 1; vb = 1; cp = 0; ce = 0;
			closed[1] = 0; oep[1] = OPEN;
			i = 0;
			do
			:: i < NV -> mep[i] = 0; mra[i] = 0; mpend[i] = 0; i++
			:: else -> break
			od;
			i = 0;
			do
			:: i < NP ->
				wk[i] = NONE; wc[i * K] = 0; wc[i * K + 1] = 0;
				ln[i] = 0; cend[i] = OPEN; i++
			:: else -> break
			od;
			i = 0;
			do
			:: i < NG -> grow[i] = 0; i++
			:: else -> break
			od;
			i = 0;
			do
			:: i < NB -> brow[i] = 0; bprog[i] = 0; i++
			:: else -> break
			od;
			i = 0
		};
		deleted = false;
		run Owner(OWNERS);
	:: true
	fi
}

/* If everything died now: what would be found? */
proctype Monitor()
{
	byte q, m, g, found, all;

	atomic {
		d_step {
			found = brow[bnew];
			all = found;
			g = 1;
			do
			:: g < NG ->
				if
				:: (mpend[mnew] & BIT(g)) && g > bprog[bnew] &&
				   (gex & BIT(g)) -> found = found | grow[g]
				:: else
				fi;
				all = all | grow[g];
				g++
			:: else -> break
			od;
			q = mra[mnew] + 1;
			do
			:: q < NP && wk[q] != NONE ->
				if
				:: wk[q] == DATA ->
					m = ln[q];
					if
					:: cend[q] < m -> m = cend[q]
					:: else
					fi;
					rows_of(q, m, found)
				:: else
				fi;
				q++
			:: else -> break
			od;
			all = all | found
		}
		assert((acked & ~found) == 0);
		assert(store == 1 || (all & ~fresh) == 0)
	}
}

init {
	byte i;

	atomic {
		i = 0;
		do
		:: i < NP -> cend[i] = OPEN; i++
		:: else -> break
		od;
		i = 1;
#if DELETES
		do		/* the last one is the new store's */
		:: i < OWNERS -> run Owner(i); i++
		:: else -> break
		od;
		run Deleter();
#else
		do
		:: i <= OWNERS -> run Owner(i); i++
		:: else -> break
		od;
#endif
		i = 1;
		do
		:: i <= MAINTAINERS -> run Maintainer(i); i++
		:: else -> break
		od;
#if COLLECTS
		run Collector();
#endif
#if OTHERS
		run Other();
#endif
#if READS
		run Reader();
#endif
		run Monitor()
	}
}
