"""The inference server, and the actors' view of it.

One process holds the network for all actors. It takes every request that is waiting, judges all
their positions in one forward pass, and sends each actor its part: the more actors wait at once,
the larger the batch and the cheaper each position.
"""

from __future__ import annotations

import numpy as np

from lineprofiler.accounting import Profiler

from . import game
from .channels import Channels, Edition, Reply, Request, Settings
from .game import Floats, Positions


class RemoteNetwork:
    """The network as a thread of an actor sees it: a question sent, an answer waited for."""

    def __init__(self, client: int, channels: Channels) -> None:
        self._client = client
        self._requests = channels.requests
        self._replies = channels.replies[client]

    def predict(self, positions: Positions) -> tuple[Floats, Floats]:
        self._requests.put(Request(self._client, positions))
        reply = self._replies.get()
        return reply.policy, reply.value

    def leave(self) -> None:
        self._requests.put(None)


def run(settings: Settings, channels: Channels) -> None:
    """Serve until the last client has left."""
    network, edition = settings.first_network(), Edition()
    clients = settings.clients
    with Profiler(role="inference") as profiler:
        while clients > 0:
            with profiler.phase("serve"):
                with profiler.phase("wait_for_requests"):
                    messages = [channels.requests.get()]
                with profiler.phase("batch"):
                    while not channels.requests.empty():
                        messages.append(channels.requests.get())
                    requests = [message for message in messages if message is not None]
                    clients -= messages.count(None)
                    if not requests:
                        continue
                    positions = game.concatenate([request.positions for request in requests])
                    profiler.count("requests", len(requests))
                    edition = channels.network.refresh(network, edition)
                with profiler.phase("forward"):
                    policy, value = network.predict(positions)
                    profiler.count("positions", len(positions))
                with profiler.phase("reply"):
                    ends = np.cumsum([len(request.positions) for request in requests])[:-1]
                    parts = zip(np.split(policy, ends), np.split(value, ends), strict=True)
                    for request, part in zip(requests, parts, strict=True):
                        channels.replies[request.client].put(Reply(*part))
