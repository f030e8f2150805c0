"""A store that is pinned to an old version is that for everybody, until it is
released: through every worker, after a restart, on other instances (2.4.5)."""

import unittest

import memwal
from every_kind import KINDS, Rollout
from harness import Server, wait_for

QUIET = ["--rollout-flush-interval-secs=0",
         "--rollout-merge-after-generations=0"]
OLD = {"a": "1", "b": "1"}
NEW = {"a": "2", "b": "1", "c": "2", "d": "3"}


def fill(kind, c):
    """A version with OLD; then a is replaced, c is new, d is in the tail. The
    version."""
    kind.create(c)
    kind.append(c, "a", "b").must(201)
    kind.folded(c)
    version = kind.version(c)
    if kind.name == "datagen":		# an event is never replaced
        kind.append(c, "c", text="2").must(201)
    else:
        kind.append(c, "a", "c", text="2").must(201)
    kind.folded(c)
    kind.append(c, "d", text="3").must(201)
    return version


def new_of(kind):
    return dict(NEW, a="1") if kind.name == "datagen" else NEW


class Checkout(unittest.TestCase):
    def pinned(self, kind, clients, version):
        """What is so while it is pinned."""
        for c in clients:
            self.assertEqual(kind.texts(c), OLD)
            self.assertEqual(kind.get(c, "a"), "1")
            self.assertIsNone(kind.get(c, "d"))
            info = kind.info(c)
            self.assertEqual(info["pinned_version"], version)
            reply = kind.append(c, "x")
            self.assertEqual(reply.status, 400, reply.body)
            self.assertIn("version %d" % version, reply.error()[1])

    def left_alone(self, kind, server, c):
        """No seal, no fold, of nobody."""
        before = memwal.generations_made(kind.directory(server))
        version = kind.version(c)
        self.assertEqual(kind.folded(c), 0)
        if kind.name == "generic":
            c.post(kind.path + "/flush").must(204)
        self.assertEqual(kind.version(c), version)
        self.assertEqual(memwal.generations_made(kind.directory(server)),
                         before)

    def released(self, kind, clients):
        for c in clients:
            self.assertEqual(kind.texts(c), new_of(kind))
            self.assertNotIn("pinned_version", kind.info(c))

    def test_pinned_for_all_and_for_good(self):
        with Server(workers=3, args=QUIET) as s:
            s.wait_walked()
            clients = list(s.clients_by_worker().values())
            stores = [k() for k in KINDS]
            at = {}
            for kind in stores:
                at[kind] = fill(kind, clients[0])
                for c in clients:	# all have it open
                    self.assertEqual(kind.texts(c), new_of(kind))
                newest = kind.version(clients[0])
                reply = kind.checkout(clients[1], at[kind]).must(200).json()
                self.assertEqual(reply, {"version": at[kind]})
                self.assertGreaterEqual(kind.version(clients[0]), newest)
                self.pinned(kind, clients, at[kind])
                self.left_alone(kind, s, clients[2])
            s.kill_all()
            s.start()
            clients = list(s.clients_by_worker().values())
            for kind in stores:
                self.pinned(kind, clients, at[kind])
                self.left_alone(kind, s, clients[0])
                # To another one, which is empty; and that twice.
                for _ in range(2):
                    kind.checkout(clients[0], 2).must(200)
                self.assertEqual(kind.texts(clients[1]), {})
            s.restart()
            s.wait_walked()
            clients = list(s.clients_by_worker().values())
            for kind in stores:
                # Behind what the walk asked for, which else could come after
                # the release.
                self.left_alone(kind, s, clients[0])
                self.assertEqual(kind.info(clients[0])["pinned_version"], 2)
                reply = kind.checkout(clients[2], None).must(200).json()
                self.assertEqual(reply["version"], kind.version(clients[0]))
                self.released(kind, clients)
                kind.checkout(clients[2], None).must(200)
                kind.append(clients[1], "e").must(201)
                self.assertEqual(kind.texts(clients[2]),
                                 dict(new_of(kind), e="1"))
                self.assertGreater(kind.folded(clients[0]), 0)
                self.assertEqual(kind.texts(clients[2]),
                                 dict(new_of(kind), e="1"))

    def test_what_is_refused(self):
        with Server(workers=1, args=QUIET) as s, s.client() as c:
            kind = Rollout()
            path = kind.path + "/checkout"
            self.assertEqual(kind.checkout(c, 1).status, 404)
            newest = kind.create(c)["version"]
            for version in (0, newest + 1, 2 ** 64 - 1):
                reply = kind.checkout(c, version)
                self.assertEqual(reply.status, 404)
                self.assertIn(" %d" % version, reply.error()[1])
            for body in ({}, {"version": "2"}, {"version": -1},
                         {"version": 1.5}, {"version": True}, [2]):
                self.assertEqual(c.post(path, body).status, 422, body)
            self.assertEqual(c.post(path, b"{").status, 400)
            self.assertEqual(c.post(path).status, 415)
            self.assertEqual(c.get(path).status, 405)
            self.assertNotIn("pinned_version", kind.info(c))
            kind.append(c, "a").must(201)

    def test_the_ticker_passes_over_it(self):
        with Server(workers=2, args=[
                "--rollout-flush-interval-secs=1",
                "--rollout-cleanup-interval-secs=1"]) as s, s.client() as c:
            s.wait_walked()
            stores, other = [k() for k in KINDS], Rollout("other")
            for kind in stores:
                kind.create(c)
                kind.checkout(c, kind.version(c)).must(200)
                kind.checkout(c, None).must(200)
            other.create(c)
            # Held back, so that the pin comes before the first tick of it.
            s.fault("seal_write=hold")
            for kind in stores:
                kind.append(c, "a").must(201)
                kind.checkout(c, 2).must(200)
            s.fault("seal_write=off")
            for _ in range(2):		# the tick that saw it is not the last
                other.append(c, "a").must(201)
                made = memwal.generations_made(other.directory(s))
                wait_for("a seal of the other store", lambda made=made:
                         memwal.generations_made(other.directory(s)) > made)
            for kind in stores:
                self.assertEqual(memwal.generations_made(kind.directory(s)), 0)
                with s.client() as fresh:
                    kind.checkout(fresh, None).must(200)
            for kind in stores:
                wait_for("its fold", lambda kind=kind: memwal.generations_made(
                    kind.directory(s)) > 0 and not any(memwal.pending(
                        kind.directory(s)).values()))
            with s.client() as fresh:
                for kind in stores:
                    self.assertEqual(kind.texts(fresh), {"a": "1"})
            self.assertNotIn("tick failed", s.log())

    def test_another_instance(self):
        with Server(instance_id="one", args=QUIET) as one, \
                Server(instance_id="two", args=QUIET,
                       data_dir=one.data_dir) as two:
            one.wait_walked()
            two.wait_walked()
            a, b = one.client(), two.client()
            for kind in (k() for k in KINDS):
                version = fill(kind, a)
                kind.append(b, "e", text="5").must(201)
                self.assertEqual(kind.texts(b)["e"], "5")
                kind.checkout(a, version).must(200)
                # A read looks each time, an append once a second.
                self.assertEqual(kind.texts(b), OLD)
                self.pinned(kind, [a, b], version)
                self.left_alone(kind, two, b)
                kind.checkout(b, None).must(200)
                # The other's tail may be there already, or not yet.
                self.assertEqual(dict(kind.texts(a), e="5"),
                                 dict(new_of(kind), e="5"))
                wait_for("an append", lambda kind=kind:
                         kind.append(a, "f").status == 201)
                # Nobody reads here: the append alone finds it out.
                kind.checkout(a, version).must(200)
                wait_for("a refusal", lambda kind=kind:
                         kind.append(b, "g").status == 400)
                kind.checkout(a, None).must(200)
                # And the maintainer alone.
                self.assertGreater(kind.folded(b), 0)
                self.assertEqual(kind.texts(a)["e"], "5")

    def test_a_deleted_one_takes_its_pin_along(self):
        with Server(workers=2, args=QUIET) as s, s.client() as c:
            s.wait_walked()
            for kind in (k() for k in KINDS):
                version = fill(kind, c)
                kind.checkout(c, version).must(200)
                kind.delete(c).must(204)
                self.assertEqual(kind.reply(c).status, 404)
                kind.create(c)
                self.assertNotIn("pinned_version", kind.info(c))
                kind.append(c, "a").must(201)
                self.assertEqual(kind.texts(c), {"a": "1"})


if __name__ == "__main__":
    unittest.main()
