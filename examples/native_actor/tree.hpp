/*
 * The search tree of one game: the rules of connect_four/mcts.py, number for number, so that both searches agree.
 *
 * A simulation is select(), which ends at a new leaf or at a finished game, and then backup(). It knows neither threads nor
 * Python; trees of different games share nothing.
 */
#ifndef NATIVE_ACTOR_TREE_HPP
#define NATIVE_ACTOR_TREE_HPP

#include <array>
#include <vector>

#include "rules.hpp"

/* What the network says of a position. */
struct Verdict {
    std::array<float, COLUMNS> policy; /* how likely each column is the best */
    float value;                       /* how the game will end for the player to move: -1 to 1 */
};

class Tree {
  public:
    Tree(const Position &root, int simulations);

    const Position &root() const
    {
        return nodes_[0].position;
    }
    /* Of the root: to be given before the first simulation. */
    void set_priors(const std::array<float, COLUMNS> &priors);
    /* Follows the most promising edges out of the tree. True if the leaf there has to be judged. */
    bool select();
    /* The leaf that select() has found. */
    const Position &leaf() const
    {
        return nodes_[leaf_].position;
    }
    /* Credits every edge on the way to a leaf that was judged. */
    void backup(const Verdict &verdict);
    /* The same where the game is over. */
    void backup();
    /* How often each column of the root was tried. */
    const std::array<float, COLUMNS> &visits() const
    {
        return nodes_[0].visits;
    }

  private:
    struct Node {
        Position position;
        bool is_finished;
        float outcome; /* of a finished game, for the player to move */
        std::array<int, COLUMNS> child;
        std::array<float, COLUMNS> prior, visits, total_value;
    };
    struct Edge {
        int node, column;
    };

    int most_promising_column(const Node &node) const;
    int expand(int parent, int column);
    void credit_path(float value);

    std::vector<Node> nodes_; /* the first one is the root, and so nobody's child */
    std::vector<Edge> path_;
    int leaf_ = 0;
};

#endif
