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

// A hash table with linear probing. Most instances live shortly, so it is small, and stays in the cache. The addresses
// are apart from the notes: a scope that ends reads all addresses, and few notes.
class Notes {
    static constexpr std::size_t LEAST = 64;
    std::vector<std::size_t> addresses = std::vector<std::size_t>(LEAST, 0);  // 0 in a free slot
    std::vector<Note> notes = std::vector<Note>(LEAST, Note{});
    std::size_t count = 0;

    std::size_t place_of(std::size_t address) const {
        return static_cast<std::size_t>((static_cast<std::uint64_t>(address >> 4) * 0x9E3779B97F4A7C15ull) >> 32)
            & (addresses.size() - 1);
    }
    // Returns the slot with the address, or the free slot for it.
    std::size_t slot_of(std::size_t address) const {
        std::size_t i = place_of(address);
        while (addresses[i] != 0 && addresses[i] != address)
            i = (i + 1) & (addresses.size() - 1);
        return i;
    }
    void resize(std::size_t size) {
        std::vector<std::size_t> old_addresses(size, 0);
        std::vector<Note> old_notes(size, Note{});
        old_addresses.swap(addresses);
        old_notes.swap(notes);
        for (std::size_t i = 0; i < old_addresses.size(); ++i)
            if (old_addresses[i] != 0) {
                std::size_t slot = slot_of(old_addresses[i]);
                addresses[slot] = old_addresses[i];
                notes[slot] = old_notes[i];
            }
    }

public:
    // Called when a table of many instances has doubled.
    void (*on_growth)() = nullptr;

    bool empty() const { return count == 0; }
    // Returns the note, or null.
    Note* find(std::size_t address) {
        if (count == 0)
            return nullptr;
        std::size_t slot = slot_of(address);
        return addresses[slot] == 0 ? nullptr : &notes[slot];
    }
    // Adds a note of an instance that has none.
    void put(std::size_t address, const Note& note) {
        if (++count * 2 > addresses.size()) {
            resize(addresses.size() * 2);
            if (on_growth != nullptr && count > 1000)
                on_growth();
        }
        std::size_t slot = slot_of(address);
        addresses[slot] = address;
        notes[slot] = note;
    }
    // Moves the note to `note`, and returns whether there is one.
    bool take(std::size_t address, Note* note) {
        if (count == 0)
            return false;
        std::size_t hole = slot_of(address);
        if (addresses[hole] == 0)
            return false;
        *note = notes[hole];
        --count;
        // Move later ones of the same run into the hole, if a search for them begins at it or before.
        const std::size_t last = addresses.size() - 1;
        for (std::size_t i = (hole + 1) & last; addresses[i] != 0; i = (i + 1) & last)
            if (((i - place_of(addresses[i])) & last) >= ((i - hole) & last)) {
                addresses[hole] = addresses[i];
                notes[hole] = notes[i];
                hole = i;
            }
        addresses[hole] = 0;
        if (addresses.size() > LEAST && count * 16 < addresses.size())
            resize(std::max(LEAST, addresses.size() / 4));
        return true;
    }
    // Appends the instances, the oldest first.
    void append_to(std::vector<PyObject*>& found) const {
        std::vector<std::pair<std::uint64_t, std::size_t>> numbered;
        for (std::size_t i = 0; i < addresses.size(); ++i)
            if (addresses[i] != 0)
                numbered.emplace_back(notes[i].serial, addresses[i]);
        std::sort(numbered.begin(), numbered.end());
        for (const auto& each : numbered)
            found.push_back(reinterpret_cast<PyObject*>(each.second));
    }
};

}  // namespace scopes
