/* The rules of Connect Four for one game: what connect_four/game.py has for many, with the same boards. */
#ifndef NATIVE_ACTOR_RULES_HPP
#define NATIVE_ACTOR_RULES_HPP

#include <cstdint>

constexpr int COLUMNS = 7, ROWS = 6, BITS_PER_COLUMN = ROWS + 1;

/* Seen by the player to move. */
struct Position {
    std::uint64_t own, other;
};

constexpr std::uint64_t bottom_cell(int column)
{
    return std::uint64_t{1} << BITS_PER_COLUMN * column;
}

constexpr std::uint64_t cells_of(int column)
{
    return bottom_cell(column) * ((1 << ROWS) - 1);
}

inline bool is_legal(const Position &position, int column)
{
    return ((position.own | position.other) & bottom_cell(column) << (ROWS - 1)) == 0;
}

/* Drops a stone into a legal column. The opponent is to move afterwards. */
inline Position play(const Position &position, int column)
{
    std::uint64_t landing_cell = ((position.own | position.other) + bottom_cell(column)) & cells_of(column);
    return {position.other, position.own | landing_cell};
}

inline bool has_four(std::uint64_t stones)
{
    for (int step : {1, BITS_PER_COLUMN - 1, BITS_PER_COLUMN, BITS_PER_COLUMN + 1}) {
        std::uint64_t pairs = stones & stones >> step;
        if (pairs & pairs >> 2 * step)
            return true;
    }
    return false;
}

inline bool is_full(const Position &position)
{
    for (int column = 0; column < COLUMNS; column++)
        if (is_legal(position, column))
            return false;
    return true;
}

#endif
