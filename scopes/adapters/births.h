// The notes of foreign.pyx about living instances, by address.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace scopes {

struct Note {
    // The `Counters` in which the instance counts as created, and the scope that owns it or null: counted
    // references.
    PyObject *counters, *scope;
    // The line of the allocation, as a counted reference, and the thread; null and 0 without tracking.
    PyObject* site;
    unsigned long thread;
    // The number of the birth.
    std::uint64_t serial;
    // Whether the birth was in a block of `owning(strict=True)`.
    bool is_strict;
};

// A hash table with linear probing. Most instances live shortly, so it is small, and stays in the cache.
class Notes {
    struct Slot { std::size_t address; Note note; };  // the address is 0 in a free slot
    static constexpr std::size_t LEAST = 64;
    std::vector<Slot> slots = std::vector<Slot>(LEAST, Slot{});
    std::size_t count = 0;

    std::size_t place_of(std::size_t address) const {
        return static_cast<std::size_t>((static_cast<std::uint64_t>(address >> 4) * 0x9E3779B97F4A7C15ull) >> 32)
            & (slots.size() - 1);
    }
    // Returns the slot with the address, or the free slot for it.
    std::size_t slot_of(std::size_t address) const {
        std::size_t i = place_of(address);
        while (slots[i].address != 0 && slots[i].address != address)
            i = (i + 1) & (slots.size() - 1);
        return i;
    }
    void resize(std::size_t size) {
        std::vector<Slot> old(size, Slot{});
        old.swap(slots);
        for (const Slot& each : old)
            if (each.address != 0)
                slots[slot_of(each.address)] = each;
    }

public:
    bool empty() const { return count == 0; }
    // Returns the note, or null.
    Note* find(std::size_t address) {
        if (count == 0)
            return nullptr;
        Slot& slot = slots[slot_of(address)];
        return slot.address == 0 ? nullptr : &slot.note;
    }
    // Adds a note of an instance that has none.
    void put(std::size_t address, const Note& note) {
        if (++count * 2 > slots.size())
            resize(slots.size() * 2);
        slots[slot_of(address)] = Slot{address, note};
    }
    // Moves the note to `note`, and returns whether there is one.
    bool take(std::size_t address, Note* note) {
        if (count == 0)
            return false;
        std::size_t hole = slot_of(address);
        if (slots[hole].address == 0)
            return false;
        *note = slots[hole].note;
        --count;
        // Move later ones of the same run into the hole, if a search for them begins at it or before.
        const std::size_t last = slots.size() - 1;
        for (std::size_t i = (hole + 1) & last; slots[i].address != 0; i = (i + 1) & last)
            if (((i - place_of(slots[i].address)) & last) >= ((i - hole) & last)) {
                slots[hole] = slots[i];
                hole = i;
            }
        slots[hole].address = 0;
        if (slots.size() > LEAST && count * 16 < slots.size())
            resize(std::max(LEAST, slots.size() / 4));
        return true;
    }
    // Appends the instances, the oldest first.
    void append_to(std::vector<PyObject*>& found) const {
        std::vector<std::pair<std::uint64_t, std::size_t>> numbered;
        for (const Slot& each : slots)
            if (each.address != 0)
                numbered.emplace_back(each.note.serial, each.address);
        std::sort(numbered.begin(), numbered.end());
        for (const auto& each : numbered)
            found.push_back(reinterpret_cast<PyObject*>(each.second));
    }
};

}  // namespace scopes
