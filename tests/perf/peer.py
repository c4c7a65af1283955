"""The workloads of workloads.lua in PyTorch, under the same names: prints `name<TAB>seconds`.

usage: python3 peer.py THREADS [ONLY]"""
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LIST = []
N = 1000


def workload(name):
    def put(setup):
        LIST.append((name, setup))
    return put


def repeat(n, f):
    def run():
        for _ in range(n):
            f()
    return run, n


for n in (1, 16):
    @workload(f"op/add_{n}")
    def _(n=n):
        x, y = torch.randn(n), torch.randn(n)
        return repeat(N, lambda: x + y)

    @workload(f"op/add_{n}_recording")
    def _(n=n):
        x, y = torch.randn(n, requires_grad=True), torch.randn(n)
        return repeat(N, lambda: x + y)

    @workload(f"op/chain20_{n}_forward_backward")
    def _(n=n):
        x, w = torch.randn(n), torch.ones(n, requires_grad=True)

        def run():
            for _ in range(50):
                h = x
                for _ in range(20):
                    h = h * w
                h.sum().backward()
                w.grad = None
        return run, 1000


@workload("op/add_inplace_16")
def _():
    x, y = torch.zeros(16), torch.randn(16)
    return repeat(N, lambda: x.add_(y))


for batch in (1, 32):
    for kind in ("SGD", "Adam"):
        @workload(f"mlp_4_64_64_2/{kind.lower()}_b{batch}")
        def _(batch=batch, kind=kind):
            net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                                nn.Linear(64, 2))
            x, y = torch.randn(batch, 4), torch.randn(batch, 2)
            opt = getattr(torch.optim, kind)(net.parameters(), lr=1e-3)

            def step():
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
            return repeat(20, step)


def epoch(net, shape):
    count, batch = 10000, 64
    x, y = torch.randn(count, *shape), torch.randint(0, 10, (count,))
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def run():
        for i in range(0, count - batch + 1, batch):
            opt.zero_grad()
            F.cross_entropy(net(x[i:i + batch]), y[i:i + batch]).backward()
            opt.step()
    return run, 1


@workload("epoch/mnist_mlp")
def _():
    return epoch(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (784,))


@workload("epoch/lenet")
def _():
    return epoch(nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10)), (1, 28, 28))


BIG = 1 << 24


def big(name, f, inputs=1, shape=(BIG,)):
    @workload("big/" + name)
    def _():
        x = [torch.randn(*shape) for _ in range(inputs)]
        return repeat(1, lambda: f(*x))


big("add", torch.add, 2)
big("mul", torch.mul, 2)
for fname, fn in (("relu", torch.relu), ("exp", torch.exp), ("tanh", torch.tanh),
                  ("sigmoid", torch.sigmoid), ("gelu", F.gelu), ("sum", torch.sum),
                  ("mean", torch.mean), ("max", torch.max), ("var", torch.var),
                  ("argmax", torch.argmax)):
    big(fname, fn)
big("softmax_4096x1024", lambda x: x.softmax(1), 1, (4096, 1024))
big("sum_dim1_4096x1024", lambda x: x.sum(0), 1, (4096, 1024))
big("sum_dim2_4096x1024", lambda x: x.sum(1), 1, (4096, 1024))

for n in (64, 256, 1024):
    @workload(f"matmul/{n}")
    def _(n=n):
        a, b = torch.randn(n, n), torch.randn(n, n)
        return repeat(1, lambda: a @ b)


@workload("matmul/64x784x128")
def _():
    a, b = torch.randn(64, 784), torch.randn(784, 128)
    return repeat(1, lambda: a @ b)


def measure(f, units, budget=0.6):
    clock = time.perf_counter
    f()
    t = clock()
    f()
    inner = max(1, int(0.005 / max(clock() - t, 1e-9)))
    samples, stop = [], clock() + budget
    while (clock() < stop or len(samples) < 3) and len(samples) < 25:
        t = clock()
        for _ in range(inner):
            f()
        samples.append((clock() - t) / inner)
    return statistics.median(samples) / units


torch.set_num_threads(int(sys.argv[1]))
only = sys.argv[2] if len(sys.argv) > 2 else ""
for name, setup in LIST:
    if only in name:
        print(f"{name}\t{measure(*setup()):.9g}", flush=True)
