#include "metal_residency.h"

#include "device_failure.h"

#if defined(__MAC_OS_X_VERSION_MAX_ALLOWED) && __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
#define FERRULE_RESIDENCY_SETS 1
#endif

namespace ferrule::metal {

Residency::Residency(id<MTLDevice> device, id<MTLCommandQueue> queue, std::span<const id<MTLBuffer>> buffers)
    : queue_(queue) {
#if FERRULE_RESIDENCY_SETS
    if (@available(macOS 15.0, *)) {
        Retained<MTLResidencySetDescriptor*> descriptor([[MTLResidencySetDescriptor alloc] init]);
        descriptor.get().initialCapacity = buffers.size();
        NSError* error = nil;
        const id<MTLResidencySet> set = [device newResidencySetWithDescriptor:descriptor.get() error:&error];
        if (set == nil) throw DeviceFailure("no residency set: " + text(error));
        set_ = Retained<id>(set);
        for (const id<MTLBuffer> buffer : buffers) [set addAllocation:buffer];
        [set commit];
        [set requestResidency];
        [queue addResidencySet:set];
    }
#endif
}

Residency::~Residency() {
#if FERRULE_RESIDENCY_SETS
    if (@available(macOS 15.0, *)) {
        const id<MTLResidencySet> set = set_.get();
        if (set == nil) return;
        [queue_ removeResidencySet:set];
        [set endResidency];
    }
#endif
}

}  // namespace ferrule::metal
