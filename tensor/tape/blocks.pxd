"""Switching of gradient modes. For `cimport`."""

# Set whether ops of this context are recorded. `mode` is False, True or a Recorder. Works even if memory is
# short.
cdef int set_recording(object mode) except -1
