"""The policy-value network, its gradient written out by hand, and the Adam optimiser.

Two hidden layers look at the board's cells; one head reads from them how likely each column is
the best (policy), the other how the game will end for the player to move (value). All parameters
lie in one flat array: to publish a network is one copy, and to improve it a few operations on
whole arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from . import game
from .game import CELLS, COLUMNS, Flags, Floats, Positions


@dataclass(frozen=True, slots=True)
class Layers:
    """The weights and biases of each layer: views into one flat array of parameters."""

    first_weights: Floats
    first_bias: Floats
    second_weights: Floats
    second_bias: Floats
    head_weights: Floats
    """One output per column, then one for the value."""
    head_bias: Floats

    @classmethod
    def of(cls, parameters: Floats) -> Layers:
        parts = np.split(parameters, _OFFSETS[1:-1])
        return cls(*(part.reshape(shape) for part, shape in zip(parts, _SHAPES, strict=True)))


_FIRST, _SECOND = 256, 64
_SHAPES = (
    (2 * CELLS, _FIRST),
    (_FIRST,),
    (_FIRST, _SECOND),
    (_SECOND,),
    (_SECOND, COLUMNS + 1),
    (COLUMNS + 1,),
)
_OFFSETS = [sum(math.prod(shape) for shape in _SHAPES[:layer]) for layer in range(len(_SHAPES) + 1)]
PARAMETERS = _OFFSETS[-1]


@dataclass(frozen=True, slots=True)
class Targets:
    """What a batch of positions should have been judged as."""

    policy: Floats
    """How often the search visited each column, as shares of one."""
    value: Floats
    """How the game ended for the player to move: 1 won, 0 drawn, -1 lost."""


@dataclass(frozen=True, slots=True)
class Activations:
    """Everything a forward pass computed: `policy` and `value` are its answer."""

    inputs: Floats
    first: Floats
    second: Floats
    policy: Floats
    value: Floats


class Network:
    def __init__(self, parameters: Floats) -> None:
        self.parameters = parameters
        self._layers = Layers.of(parameters)

    @classmethod
    def untrained(cls, rng: np.random.Generator) -> Network:
        network = cls(np.zeros(PARAMETERS, np.float32))
        layers = network._layers
        for weights in (layers.first_weights, layers.second_weights, layers.head_weights):
            weights[:] = rng.normal(0, math.sqrt(2 / len(weights)), weights.shape)
        layers.head_weights[:] *= 0.1  # so that it begins without strong opinions
        return network

    def predict(self, positions: Positions) -> tuple[Floats, Floats]:
        """The policy and the value of each position."""
        activations = self.forward(positions)
        return activations.policy, activations.value

    def forward(self, positions: Positions) -> Activations:
        layers = self._layers
        inputs = np.concatenate([game.cells(positions.own), game.cells(positions.other)], axis=1)
        first = np.maximum(inputs @ layers.first_weights + layers.first_bias, 0)
        second = np.maximum(first @ layers.second_weights + layers.second_bias, 0)
        heads = second @ layers.head_weights + layers.head_bias
        policy = _softmax(heads[:, :COLUMNS], game.legal_columns(positions))
        value = np.tanh(heads[:, COLUMNS])
        return Activations(inputs, first, second, policy, value)

    def backward(self, done: Activations, targets: Targets) -> Floats:
        """The gradient of `loss` with respect to the parameters, flat like these."""
        gradient = np.empty_like(self.parameters)
        into, layers = Layers.of(gradient), self._layers
        count = len(done.inputs)

        heads = np.empty((count, COLUMNS + 1), gradient.dtype)
        heads[:, :COLUMNS] = (done.policy - targets.policy) / count
        heads[:, COLUMNS] = 2 * (done.value - targets.value) * (1 - done.value**2) / count
        into.head_weights[:] = done.second.T @ heads
        into.head_bias[:] = heads.sum(axis=0)

        second = (heads @ layers.head_weights.T) * (done.second > 0)
        into.second_weights[:] = done.first.T @ second
        into.second_bias[:] = second.sum(axis=0)

        first = (second @ layers.second_weights.T) * (done.first > 0)
        into.first_weights[:] = done.inputs.T @ first
        into.first_bias[:] = first.sum(axis=0)
        return gradient


def loss(done: Activations, targets: Targets) -> float:
    """Cross entropy of the policy plus squared error of the value, the mean over the batch."""
    surprise = -np.sum(targets.policy * np.log(done.policy + 1e-12), axis=1)
    return float(np.mean(surprise + (done.value - targets.value) ** 2))


def _softmax(logits: Floats, allowed: Flags) -> Floats:
    """Probabilities over the allowed entries of each row, of which there must be one at least."""
    logits = np.where(allowed, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class Adam:
    """Adam (Kingma and Ba, 2014) on one flat array of parameters."""

    _DECAY_OF_MEAN, _DECAY_OF_SQUARE, _EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, parameters: Floats, learning_rate: float) -> None:
        self._parameters = parameters
        self._learning_rate = learning_rate
        self._mean = np.zeros_like(parameters)
        self._square = np.zeros_like(parameters)
        self._steps = 0

    def state(self) -> dict[str, Floats]:
        """What it has besides the parameters."""
        return {
            "mean": self._mean,
            "square": self._square,
            "steps": np.array([self._steps], np.float32),
        }

    def step(self, gradient: Floats) -> None:
        """Change the parameters in place, against the gradient."""
        self._steps += 1
        self._mean += (1 - self._DECAY_OF_MEAN) * (gradient - self._mean)
        self._square += (1 - self._DECAY_OF_SQUARE) * (gradient**2 - self._square)
        mean = self._mean / (1 - self._DECAY_OF_MEAN**self._steps)
        square = self._square / (1 - self._DECAY_OF_SQUARE**self._steps)
        self._parameters -= self._learning_rate * mean / (np.sqrt(square) + self._EPSILON)
