// The cached blocks of the pool: sorted by the time when they were freed, and into bins by capacity.
#pragma once

#include <vector>

#include "tensor/memory/block.h"

namespace disposescope::memory {

// The pool's mutex guards it.
class FreeBlocks {
   public:
    // Counts the bytes of the blocks in `cached`.
    explicit FreeBlocks(std::atomic<Bytes>& cached) noexcept : cached_(cached) {}

    void put(Block* block) noexcept {
        block->newer = nullptr;
        block->older = newest_;
        (newest_ == nullptr ? oldest_ : newest_->newer) = block;
        newest_ = block;
        Block*& top = bins_[block->bin];
        block->above = nullptr;
        block->below = top;
        if (top != nullptr) top->above = block;
        top = block;
        cached_.fetch_add(block->footprint());
    }

    Block* pop(std::uint16_t bin) noexcept {
        Block* const block = bins_[bin];
        if (block != nullptr) take_out(block);
        return block;
    }

    // Remove the oldest blocks until at most `most` bytes are cached. The result is a list linked by `below`.
    Block* take_oldest(Bytes most) noexcept {
        Block* taken = nullptr;
        while (oldest_ != nullptr && cached_.load() > most) {
            Block* const block = oldest_;
            take_out(block);
            block->below = taken;
            taken = block;
        }
        return taken;
    }

    // The capacities of all blocks, the one freed last first.
    std::vector<std::size_t> capacities() const {
        std::vector<std::size_t> found;
        for (Block* block = newest_; block != nullptr; block = block->older) found.push_back(block->capacity);
        return found;
    }

   private:
    std::atomic<Bytes>& cached_;
    Block* newest_ = nullptr;
    Block* oldest_ = nullptr;
    Block* bins_[64 * 16] = {};

    void take_out(Block* block) noexcept {
        (block->newer == nullptr ? newest_ : block->newer->older) = block->older;
        (block->older == nullptr ? oldest_ : block->older->newer) = block->newer;
        (block->above == nullptr ? bins_[block->bin] : block->above->below) = block->below;
        if (block->below != nullptr) block->below->above = block->above;
        cached_.fetch_sub(block->footprint());
    }
};

}  // namespace disposescope::memory
