#include "search.hpp"

#include <lineprofiler.hpp>

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

namespace {

/* What the threads of one search have in common. */
class Shared {
  public:
    bool has_failed() const
    {
        return has_failed_;
    }
    /* To be called in a handler: keeps the exception if it is the first. */
    void keep_failure()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!failure_)
            failure_ = std::current_exception();
        has_failed_ = true;
    }
    /* Once all threads have ended. */
    void throw_failure() const
    {
        if (failure_)
            std::rethrow_exception(failure_);
    }

  private:
    std::atomic<bool> has_failed_{false};
    std::mutex mutex_;
    std::exception_ptr failure_;
};

/* The games of one thread. */
class Share {
  public:
    Share(std::vector<Tree>::iterator begin, std::vector<Tree>::iterator end, const Policy *noise,
          const Evaluate &evaluate)
        : begin_(begin), end_(end), noise_(noise), evaluate_(evaluate)
    {
    }

    void search(int simulations, Shared &shared) noexcept
    {
        try {
            judge_roots();
            for (int done = 0; done < simulations && !shared.has_failed(); done++)
                simulate();
            LP_COUNT("mcts_simulations", simulations * (end_ - begin_));
        } catch (...) {
            shared.keep_failure();
        }
    }

  private:
    void judge_roots()
    {
        std::vector<Position> roots;
        for (auto tree = begin_; tree != end_; ++tree)
            roots.push_back(tree->root());
        std::vector<Verdict> verdicts = judge(roots);
        for (std::size_t game = 0; game < roots.size(); game++) {
            Policy priors = verdicts[game].policy;
            for (int column = 0; noise_ && column < COLUMNS; column++)
                priors[column] = 0.75f * priors[column] + 0.25f * noise_[game][column];
            begin_[game].set_priors(priors);
        }
    }

    /* One simulation of each game. Their leaves are judged together: that is what the network is quick at. */
    void simulate()
    {
        std::vector<Position> leaves;
        std::vector<Tree *> undecided;
        {
            LP_PHASE("select");
            for (auto tree = begin_; tree != end_; ++tree) {
                if (tree->select()) {
                    undecided.push_back(&*tree);
                    leaves.push_back(tree->leaf());
                } else
                    tree->backup();
            }
        }
        std::vector<Verdict> verdicts = judge(leaves);
        LP_PHASE("backup");
        for (std::size_t i = 0; i < undecided.size(); i++)
            undecided[i]->backup(verdicts[i]);
    }

    std::vector<Verdict> judge(const std::vector<Position> &positions)
    {
        LP_PHASE("evaluate");
        LP_COUNT("leaves", static_cast<std::int64_t>(positions.size()));
        return positions.empty() ? std::vector<Verdict>() : evaluate_(positions);
    }

    std::vector<Tree>::iterator begin_, end_;
    const Policy *noise_;
    const Evaluate &evaluate_;
};

/* Threads that have ended when this has. */
class Helpers {
  public:
    ~Helpers()
    {
        lp::phase phase{"wait_for_threads"};
        for (std::thread &thread : threads_)
            thread.join();
    }
    /* May throw: the system has no further thread. */
    template <typename Work> void start(Work work)
    {
        threads_.emplace_back(work);
    }

  private:
    std::vector<std::thread> threads_;
};

/* A thread has no phases of Python's around its own: it names itself, and says what it is in the middle of. */
void search_on_thread(std::size_t number, Share share, int simulations, Shared &shared)
{
    lp_name_thread(("search " + std::to_string(number)).c_str());
    LP_PHASE("mcts");
    share.search(simulations, shared);
}

} // namespace

std::vector<Policy> search(const std::vector<Position> &roots, const std::vector<Evaluate> &evaluators, int simulations,
                           const std::vector<Policy> &noise)
{
    std::vector<Tree> trees;
    for (const Position &root : roots)
        trees.emplace_back(root, simulations);

    std::vector<Share> shares;
    for (std::size_t i = 0; i < evaluators.size(); i++) {
        std::size_t begin = trees.size() * i / evaluators.size(), end = trees.size() * (i + 1) / evaluators.size();
        shares.emplace_back(trees.begin() + static_cast<std::ptrdiff_t>(begin),
                            trees.begin() + static_cast<std::ptrdiff_t>(end), noise.empty() ? nullptr : &noise[begin],
                            evaluators[i]);
    }

    Shared shared;
    {
        Helpers helpers;
        for (std::size_t i = 1; i < shares.size(); i++)
            helpers.start([i, simulations, &shares, &shared] { search_on_thread(i, shares[i], simulations, shared); });
        shares[0].search(simulations, shared);
    }
    shared.throw_failure();

    std::vector<Policy> visits;
    for (const Tree &tree : trees)
        visits.push_back(tree.visits());
    return visits;
}
