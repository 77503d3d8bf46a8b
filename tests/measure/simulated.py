"""A machine in simulated time, with the noise that real ones have: no test waits for a clock."""

from collections.abc import Callable
from math import exp, pi, sin
from random import Random

from explorer.measure.turns import Disturbance

PIECE_US = 2_000.0  # a longer call meets several states of the machine


class NoisyMachine:
    """Calls take simulated time.

    Its noise: jitter of each call; a random walk that forgets; a slow swing (temperature); steps of
    clock frequency; bursts of other tenants; time slices lost to other processes; interrupts.
    Together as rough as two shared cores were when a real series of 28 ms calls was taken there: of
    the median, 5 % are below 0.97, 5 % above 1.08, 1 % above 1.2.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ns = self.random.randrange(1 << 40)
        self.walk = 0.0
        self.frequency = self.tenants = 1.0
        self.next_step_ns = self.next_tenant_ns = self.now_ns
        self.phase = self.random.uniform(0, 2 * pi)

    def clock(self) -> int:
        """The time now; reading it takes 40 ns."""
        self.now_ns += 40
        return self.now_ns

    def work(self, us: float, jitter: float = 0.01) -> Callable[[], None]:
        """A function that takes this many microseconds on a quiet machine."""

        def run() -> None:
            own = exp(self.random.gauss(0, jitter)) if us > 20 else 1.0
            left = us * own
            while left > 0:
                part = min(left, PIECE_US)
                self.now_ns += int(part * 1e3 * self._slowness(part)) + self._interrupted(part)
                left -= part

        return run

    def _slowness(self, us: float) -> float:
        memory = exp(-us / 100_000)  # 100 ms
        self.walk = memory * self.walk + self.random.gauss(0, 0.015 * (1 - memory**2) ** 0.5)
        if self.now_ns >= self.next_step_ns:
            self.frequency = self.random.choice((1.0, 1.0, 1.02, 1.05))
            self.next_step_ns = self.now_ns + int(self.random.expovariate(1 / 1e9))
        if self.now_ns >= self.next_tenant_ns:
            busy = self.random.random() < 0.3
            self.tenants = self.random.uniform(1.1, 1.6) if busy else 1.0
            self.next_tenant_ns = self.now_ns + int(
                self.random.expovariate(1 / (0.06e9 if busy else 0.4e9))
            )
        swing = 0.02 * sin(self.phase + self.now_ns / 3e9)
        return self.frequency * self.tenants * exp(self.walk + swing)

    def _interrupted(self, us: float) -> int:
        lost = 0
        if self.random.random() < us / 1e6 * 4:  # four times a second
            lost += int(self.random.uniform(1e6, 4e6))
        if self.random.random() < us / 1e6 * 250:  # the timer
            lost += int(self.random.uniform(2e3, 20e3))
        return lost


class Counted:
    """Counts turns, and waits for nothing; every `each`-th one was disturbed."""

    def __init__(self, each: int = 0) -> None:
        self.begun = self.ended = 0
        self.each = each

    def begin(self) -> None:
        self.begun += 1

    def end(self) -> Disturbance:
        self.ended += 1
        bad = bool(self.each) and self.ended % self.each == 0
        return Disturbance(100.0 * self.ended, True, int(bad), 0.5 if bad else 0.0)
