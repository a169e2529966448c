// GNUstep's headers include this file, which Debian's packages lack.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

void* _Block_copy(const void*);
void _Block_release(const void*);

#ifdef __cplusplus
}
#endif
