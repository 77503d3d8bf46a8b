"""A run in which every value's bytes become NaN as soon as nothing will use them again.

The order is one of those that the wall's waits allow. When a value is over is read off the program
here, block by block, without asking the planner: bytes that it gave away too early are lost.
"""

from __future__ import annotations

import ctypes
from collections import Counter

import numpy as np

from explorer.grinder import BranchTask, LibraryTask, LoopTask, Straight
from explorer.grinder.model import key_of
from explorer.ops.interpreter.frame import bind_sizes
from explorer.ops.interpreter.libraries import call_library
from explorer.runtime.binding.arena import Views
from explorer.runtime.binding.bound import BoundProgram
from explorer.runtime.binding.tables import ARENA, FIRST_INPUT
from explorer.runtime.workers.aligned_memory import aligned_array
from tests.rammer.walls import replay

NAN = 0xFF  # as every byte: NaN in any float, -1 or the greatest number in integers
CODE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def poisoned(executable, inputs, seed=0):
    """The outputs of a run with freed bytes poisoned."""
    return _Poisoned(executable, inputs, seed).run()


class _Poisoned:
    def __init__(self, executable, inputs, seed):
        self.seed, self.codes = seed, executable.codes
        sizes = bind_sizes(executable.program, inputs)
        self.plan = executable.planner.plan(sizes)
        self.program = self.plan.program
        self.bound = BoundProgram(self.plan, executable.constants, self.codes, executable.units)
        self.arena = self.bound.take()
        self.arena.memory[:] = NAN
        made = [
            aligned_array(self.plan.shape(v), np.dtype(self.program.values[v].type.element))
            for v in self.program.outputs
        ]
        given = [np.ascontiguousarray(inputs[n]) for n in self.program.inputs]
        self.arrays = [*given, *made]
        self.arena.point(self.arrays)
        self.made = made
        bases = self.arena.bases[0].copy()
        bases[FIRST_INPUT:] = [a.__array_interface__["data"][0] for a in self.arrays]
        self.args = np.ascontiguousarray(self.bound.args.addresses(bases))
        self.views = Views(self.arena)
        self.buried = 0

    def run(self):
        self.block(self.program.parts, {self.root(v) for v in self.program.outputs})
        for n, name in enumerate(self.program.outputs):
            if n not in self.plan.direct.values():
                self.made[n][...] = self.look(name)
        return dict(zip(self.program.output_names, self.made))

    def root(self, name):
        return self.program.values[name].root

    def look(self, name, like=""):
        return self.views.of(name, like)()

    def bury(self, root):
        """Poison a root's bytes, if they are in the arena."""
        value = self.program.values[root]
        if (
            value.home != "buffer"
            or root in self.plan.direct
            or root not in self.bound.places.arena
        ):
            return
        place = self.bound.places.of(root)
        assert place.base == ARENA
        count = self.plan.extents.bytes(root)
        self.arena.memory[place.offset : place.offset + count] = NAN
        self.buried += 1

    def block(self, parts, needed, given=frozenset()):
        """Do the parts; `needed` are the roots that are used after them, `given` those of outside
        that are not. The roots that are then to be buried.
        """
        own = {root for part in parts for root in self.makes(part)} | given
        last = {root: n for n, part in enumerate(parts) for root in self.uses(part)}
        for n, part in enumerate(parts):
            over = {r for r in own if last.get(r, n) == n and r not in needed}
            match part:
                case Straight():
                    self.straight(part, over)
                    continue
                case LibraryTask():
                    self.library(part)
                case BranchTask():
                    over = self.branch(part, over)
                case LoopTask():
                    self.loop(part)
            for root in over:
                self.bury(root)
        return own & needed

    def makes(self, part):
        """The roots that a part gives to its block."""
        match part:
            case Straight(operators):
                return [r for o in operators for r in o.results if self.root(r) == r]
            case LibraryTask(results=results):
                return [name for name in results if self.root(name) == name]
            case BranchTask(results=rows):
                return [row[0] for row in rows]
            case LoopTask(carried=carried, iteration=iteration, going=going):
                staged = [c.staging for c in carried if c.staging]
                return [*(c.param for c in carried), *staged, iteration, going]

    def uses(self, part):
        """The roots that a part writes or reads, anywhere inside."""
        match part:
            case Straight(operators):
                names = [n for o in operators for n in (*o.args, *o.results)]
            case LibraryTask(args=args, results=results):
                names = [*(a for a in args if a), *results]
            case BranchTask(cond=cond, then=then, orelse=orelse, results=rows):
                names = [cond, *(name for row in rows for name in row)]
                return {self.root(n) for n in names} | self.inside((*then, *orelse))
            case LoopTask(body=body, carried=carried):
                rows = [(c.param, c.initial, c.result, c.staging) for c in carried]
                names = [n for row in rows for n in row if n] + [part.iteration, part.going]
                names += [n for n in (part.trip, part.cond) if n]
                return {self.root(n) for n in names} | self.inside(body)
        return {self.root(n) for n in names}

    def inside(self, parts):
        return {root for part in parts for root in self.uses(part)}

    def straight(self, part, over):
        """In the order of a random interleaving, each operator's tasks as its unit has them."""
        schedule = self.plan.schedules[key_of(part)]
        users = Counter(root for o in part.operators for root in self.uses(Straight((o,))))
        tasks = {o.name: 0 for o in part.operators}
        for program in schedule.programs:
            for unit in program.units:
                for row in unit:
                    if hasattr(row, "call"):
                        tasks[program.calls[row.call]] += row.last - row.first
        by_name = {o.name: o for o in part.operators}
        for operator in part.operators:
            if not tasks[operator.name]:
                self.done(operator, users, over)
        for program in schedule.programs:
            self.seed += 1
            order = replay(program, self.seed)
            assert order is not None, "the units wait for each other"
            for row in order:
                operator = by_name[program.calls[row.call]]
                self.call(operator, row.first, row.last)
                tasks[operator.name] -= row.last - row.first
                if not tasks[operator.name]:
                    self.done(operator, users, over)

    def call(self, operator, first, last):
        begin = self.bound.blocks.block_of[operator.name].start
        at = self.args.__array_interface__["data"][0] + self.args.itemsize * begin
        CODE(self.codes[operator.binding].address)(first, last, at)

    def done(self, operator, users, over):
        for root in self.uses(Straight((operator,))):
            users[root] -= 1
            if not users[root] and root in over and not self.written_over(root, operator):
                self.bury(root)

    def written_over(self, root, operator):
        """Whether the last user wrote its own result into these bytes."""
        places, results = self.bound.places, operator.results
        made = [places.of(r) for r in results]
        return root not in map(self.root, results) and places.of(root) in made

    def library(self, task):
        call = task.call
        args = [None if a is None else self.look(a) for a in task.args]
        found = call_library(call.library, call.function, call.attrs, args, len(task.results))
        for name, value in zip(task.results, found):
            self.look(name)[...] = value

    def branch(self, task, over):
        """`over` are the roots that nothing uses after the branch: what the way that is taken does
        not use is buried before it, the rest in it. Those that the branch makes are left over.
        """
        column = 1 if bool(self.look(task.cond)) else 2
        parts = task.then if column == 1 else task.orelse
        results = {self.root(row[0]) for row in task.results}
        made = {self.root(row[column]) for row in task.results}
        given = (over - results) & (self.inside(parts) | made)
        for root in over - results - given:
            self.bury(root)
        mine = self.block(parts, made, given)
        self.copy((row[0], row[column]) for row in task.results)
        for root in mine:
            self.bury(root)
        return over & results

    def loop(self, task):
        self.copy((c.param, c.initial) for c in task.carried if c.initial)
        for c in task.carried:
            if not c.initial:
                self.look(c.param)[...] = True
        going = task.checked or not task.cond or bool(self.look(task.cond))
        if not task.checked:
            self.look(task.going)[...] = True
        count = 0
        while going and not (task.trip and count >= self.look(task.trip).item()):
            if task.checked and not self.look(task.going).item():
                break
            self.look(task.iteration)[...] = count
            results = {self.root(c.result) for c in task.carried}
            mine = self.block(task.body, results)
            self.copy((c.staging, c.result) for c in task.carried if c.staging)
            self.copy((c.param, c.staging or c.result) for c in task.carried)
            for root in mine:
                self.bury(root)
            count += 1

    def copy(self, pairs):
        for target, source in pairs:
            if self.views.apart(target, source):
                np.copyto(self.look(target), self.look(source, like=target))
