# SPDX-License-Identifier: Apache-2.0
"""Packets between a consumer and its workers: tasks, answers, and those that are wrong."""
import os
import socket
import unittest

import torch

from stoker import _native
from stoker.torch import DataLoader, _message


class Messages(unittest.TestCase):
    def test_a_worker_that_cannot_send_has_ended(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _message.send_task(ours, _message.Task(_message.TASK, 1, 2, list(range(100000))))
        self.assertEqual(_message.receive_task(theirs), (_message.TASK, 1, 2, list(range(100000))))
        ours.close()
        self.assertIsNone(_message.receive_task(theirs))
        theirs.close()


    def test_answers(self):
        slab, fd = _native.slab_create(4096)
        os.close(fd)
        memory = memoryview(slab.lease(False))
        memory[64:68], memory[128:131], memory[192:195] = b"word", b"far", b"own"
        good = {"kind": 0, "moved": 1, "epoch": 1, "number": 1 << 40, "slab": 7, "gone": 0, "place": 0, "size": 0, "at": 192, "extra": 3, "count": 0}

        def answer(inline, state=4, **changed):
            theirs.send(_message._ANSWER.pack(*(good | changed).values()) + inline)
            return _native.answer_receive(ours.fileno(), slabs, state)

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            slabs = {7: slab, 9: slab}
            self.assertIsNone(_native.answer_receive(ours.fileno(), slabs, 0))
            kind, epoch, number, lease, *rest = answer(b"here")
            self.assertEqual((kind, epoch, number, rest), (0, 1, 1 << 40, [b"here", [], b"wordown"]))
            self.assertEqual(len(memoryview(lease)), 4096)
            table = _message._BUFFER.pack(128, 2) + _message._BUFFER.pack(64, 0)
            _, _, _, _, payload, buffers, state = answer(table + b"x", 0, count=2, gone=10)
            self.assertEqual((payload, [bytes(b) for b in buffers], state, list(slabs)), (b"x", [b"fa", b""], b"own", [7]))
            memory[256:273] = _message._BUFFER.pack(129, 2) + b"y"
            _, _, _, _, payload, buffers, _ = answer(b"", place=256, size=17, count=1)
            self.assertEqual((bytes(payload), [bytes(b) for b in buffers]), (b"y", [b"ar"]))
            for inline, state, changed in (
                    (b"", 4, {"place": 4000, "size": 97}), (b"", 4, {"place": 5000}), (b"", 4, {"at": 4096, "extra": 1}),
                    (b"", 4, {"at": 1 << 63, "extra": 1 << 63}), (b"", 4033, {}), (b"short", 4, {"count": 1}),
                    (_message._BUFFER.pack(4096, 1), 4, {"count": 1})):
                with self.assertRaisesRegex(ValueError, "beyond its slab", msg=(inline, changed)):
                    answer(inline, state, **changed)
            with self.assertRaises(KeyError):
                answer(b"", slab=8)
            theirs.send(b"short")
            with self.assertRaises(ValueError):
                _native.answer_receive(ours.fileno(), slabs, 0)
            self.assertEqual(_native.readable([ours.fileno()]), [])
            theirs.send(b"unread")
            self.assertEqual(_native.readable([theirs.fileno(), ours.fileno()]), [1])
            self.assertEqual(ours.recv(16), b"unread")
            theirs.close()
            self.assertEqual(_native.readable([ours.fileno()]), [0])
            with self.assertRaises(EOFError):
                _native.answer_receive(ours.fileno(), slabs, 0)
            with self.assertRaises(BrokenPipeError):
                _native.task_send(ours.fileno(), 0, 0, 0, b"")
        with self.assertRaises(OSError):
            _native.answer_receive(1 << 20, {}, 0)

    def test_batches_of_one_skeleton(self):
        def collate(samples):
            return {"a": torch.tensor(samples), "b": [torch.tensor(samples)]} if samples[0] % 4 else {"a": torch.tensor(samples)}

        batches = list(DataLoader(range(8), batch_size=2, num_workers=1, collate_fn=collate))
        self.assertEqual([batch["a"].tolist() for batch in batches], [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertEqual([list(batch) for batch in batches], [["a"], ["a", "b"]] * 2)
        self.assertEqual(len({id(batch) for batch in batches}), 4)


if __name__ == "__main__":
    unittest.main()
