/*
 * The search of many games at once, by one or several threads. Each thread has games of its own, and somebody of its own to
 * ask for verdicts: while one waits for an answer, the others go on.
 */
#ifndef NATIVE_ACTOR_SEARCH_HPP
#define NATIVE_ACTOR_SEARCH_HPP

#include <functional>
#include <vector>

#include "tree.hpp"

using Policy = std::array<float, COLUMNS>;

/* Judges positions: as many verdicts, in the same order. Throws if it cannot. */
using Evaluate = std::function<std::vector<Verdict>(const std::vector<Position> &)>;

/* Runs so many simulations of each game and returns how often each column of each root was tried.

   The games are shared out among the evaluators. The calling thread searches the first share, a thread of its own each of the
   others. `noise`, a row for each root or none at all, replaces a quarter of the network's own policy there. What an
   evaluator throws ends the search, and is thrown once all threads have ended. */
std::vector<Policy> search(const std::vector<Position> &roots, const std::vector<Evaluate> &evaluators, int simulations,
                           const std::vector<Policy> &noise);

#endif
