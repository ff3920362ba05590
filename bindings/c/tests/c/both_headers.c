/* The header of the library and that of the plugin contract, in one program of C or C++. */
#include <polychip.h>

#include <polychip_plugin.h>

#include <polychip.h>

polychip_status_t both(struct polychip_failure *failure, const struct polychip_error *error);

polychip_status_t both(struct polychip_failure *failure, const struct polychip_error *error)
{
    failure->status = error->status == POLYCHIP_STATUS_OK ? POLYCHIP_OK : POLYCHIP_ERROR_DEVICE_FAILED;
    return failure->status;
}
