"""Switching of gradient modes. For `cimport`."""

# Set whether ops of this context are recorded. `answer` is False, True or a Recorder. Works even if memory is
# short.
cdef int set_recording(object answer) except -1
