// A callback that may throw: with THROWS it does not compile in C++17, without it does.
#include <polychip.h>

#ifdef THROWS
#define NOTHROW
#else
#define NOTHROW noexcept
#endif

polychip_run_options options()
{
    polychip_run_options made{};
    made.struct_size = sizeof made;
    made.on_done = [](void *, polychip_status_t) NOTHROW {};
    return made;
}
