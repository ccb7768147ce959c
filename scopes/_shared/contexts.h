// Changes of context variables, which no run of the garbage collector interrupts.
//
// Python 3.11 may run the collector while it changes a context: each change makes objects. If a finalizer changes the
// same context then, Python frees what it is reading. From Python 3.12 on, the collector waits until the change is made.

#pragma once

#include <Python.h>

namespace scopes {

class CollectorPause {
  public:
#if PY_VERSION_HEX < 0x030C0000
    CollectorPause() : was_enabled(PyGC_Disable()) {}
    ~CollectorPause() {
        if (was_enabled) PyGC_Enable();
    }

  private:
    const int was_enabled;
#endif
};

// Set `variable` as PyContextVar_Set does, and return its token.
inline PyObject* set_context_variable(PyObject* variable, PyObject* value) {
    [[maybe_unused]] CollectorPause pause;
    return PyContextVar_Set(variable, value);
}

}  // namespace scopes
